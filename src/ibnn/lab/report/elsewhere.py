"""Networks trained elsewhere: rows of an exported CSV that join a report's own runs."""

import csv
from collections.abc import Sequence
from pathlib import Path

from ibnn.lab import files
from ibnn.lab.experiments.experiment import Experiment, ExperimentError, Run, Settings
from ibnn.lab.experiments.registry import names
from ibnn.lab.files import StrPath
from ibnn.lab.report.output import csv_text
from ibnn.lab.report.page import ReportError
from ibnn.lab.results import Findings

ELSEWHERE = "elsewhere.csv"
EXPERIMENT = "experiment"  # the column that says whose export a row was

Row = dict[str, str]


class Elsewhere:
    """The rows kept beside a report, and those of a further file."""

    def __init__(
        self, folder: Path, experiment: Experiment, settings: Settings, add: StrPath | None = None
    ):
        self._experiment, self._settings = experiment, settings
        self._file = folder / ELSEWHERE
        self._known = {config.identity() for config in experiment.joinable(settings)}
        kept = self._read(self._file) if self._file.is_file() else []
        added = self._of_this_experiment(Path(add)) if add is not None else []
        # a network may be in two exports: as published, and as tuned to the published rate
        self._rows = {(row[EXPERIMENT], row.get("run")): row for row in (*kept, *added)}

    def without(self, runs: Sequence[Run]) -> list[Row]:
        """Those of networks that are not among the runs, and have the settings of the report: rows
        kept for another preset stay in the file."""
        others = self._known - {run.config.identity() for run in runs}
        return [row for row in self._rows.values() if row["run"] in others]

    def find(self, runs: Sequence[Run]) -> Findings:
        """What the runs and the other networks say together."""
        experiment = self._experiment
        if not self._rows:
            return experiment.find(self._settings, runs)
        try:
            return experiment.find_with(self._settings, runs, self.without(runs))
        except ExperimentError as error:
            raise ReportError(str(error)) from None
        except (KeyError, ValueError) as error:
            raise ReportError(
                f"{experiment.name} did not write a row that should join its report: {error!r}"
            ) from None

    def keep(self) -> None:
        """Write the rows beside the report."""
        if self._rows:
            files.write_text(self._file, csv_text(list(self._rows.values())))

    def _of_this_experiment(self, file: Path) -> list[Row]:
        experiment, rows = self._experiment, self._read(file)
        wrong = next((row for row in rows if row.get("run") not in self._known), None)
        if wrong is not None or not rows:
            found = "no row" if wrong is None else f"a row of run {wrong.get('run')!r}"
            raise ReportError(
                f"{file} has {found}, expected some of the {len(self._known)} networks of "
                f"{experiment.name} on {experiment.dataset(self._settings)}"
            )
        return rows

    def _read(self, file: Path) -> list[Row]:
        """The rows of a CSV, each with the experiment whose export it was: of `controls.csv`, say,
        though they join the report of `controls-tuned`."""
        try:
            with file.open(newline="", encoding="utf-8") as lines:
                rows = list(csv.DictReader(lines))
        except OSError as error:
            raise ReportError(f"{file} cannot be read: {error.strerror}") from None
        except (ValueError, csv.Error) as error:
            raise ReportError(f"{file} cannot be read: {error}") from None
        origin = file.stem if file.stem in names() else self._experiment.name
        return [{EXPERIMENT: origin, **row} for row in rows]
