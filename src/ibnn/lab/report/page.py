"""The HTML page: what the template is given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import ibnn
from ibnn.lab.experiments.experiment import Experiment, Run, Settings
from ibnn.lab.report.output import embedded, template
from ibnn.lab.results import Findings
from ibnn.lab.training import RunConfig
from ibnn.lab.training.environment import hardware_lines


@dataclass(frozen=True)
class Page:
    """Everything a page tells."""

    experiment: Experiment
    settings: Settings
    findings: Findings
    runs: Sequence[Run]
    missing: Sequence[RunConfig]

    def hardware(self) -> list[tuple[str, str]]:
        """Where the runs were trained; more than one value if they came from several places."""
        return hardware_lines([run.result.environment for run in self.runs])

    def choices(self) -> list[tuple[str, str]]:
        """The settings of the runs."""
        return [
            ("Preset", self.settings.preset),
            ("Data", f"{self.experiment.dataset(self.settings)}, {self._sizes()}"),
            *self.findings.settings,
            ("Runs", self._counts()),
        ]

    def _sizes(self) -> str:
        train = sorted({run.result.n_train for run in self.runs})
        test = sorted({run.result.n_test for run in self.runs})
        return f"{_range(train)} training and {_range(test)} validation examples"

    def _counts(self) -> str:
        text = f"{len(self.runs)} finished"
        return text + (
            f", {len(self.missing)} not (failed or not yet trained)" if self.missing else ""
        )


def render(page: Page, images: Mapping[str, bytes], csv_name: str) -> str:
    """The page as text, figures embedded."""
    return template("report.html.j2").render(
        page=page,
        findings=page.findings,
        preset=page.experiment.preset(page.settings),
        embedded=embedded(images),
        figures=list(images),
        csv_name=csv_name,
        version=ibnn.__version__,
    )


def _range(values: Sequence[int]) -> str:
    low, high = f"{values[0]:,}", f"{values[-1]:,}"
    return low if low == high else f"{low} to {high}"
