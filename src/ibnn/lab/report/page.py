"""What the HTML page is given, and `findings.json`, what pages over several reports are made of."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import ibnn
from ibnn.lab.experiments.experiment import Experiment, Run, Settings
from ibnn.lab.report.output import embedded, template
from ibnn.lab.results import Findings
from ibnn.lab.training import RunConfig
from ibnn.lab.training.environment import hardware_lines


@dataclass(frozen=True)
class Page:
    """Everything a page shows."""

    experiment: Experiment
    settings: Settings
    findings: Findings
    runs: Sequence[Run]
    missing: Sequence[RunConfig]
    elsewhere: int = 0  # networks of which only a row is here

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
        text = f"{len(self.runs) + self.elsewhere} finished"
        text += f", {self.elsewhere} of them known from their results alone" * bool(self.elsewhere)
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


FINDINGS = "findings.json"
FINDINGS_VERSION = 2


class ReportError(Exception):
    """A folder no report can be made of; one line."""


def summary(page: Page) -> dict[str, Any]:
    """What an overview of several reports needs to know of this one."""
    findings, experiment, settings = page.findings, page.experiment, page.settings
    return {
        "version": FINDINGS_VERSION,
        "experiment": experiment.name,
        "title": experiment.title,
        "dataset": experiment.dataset(settings),
        "command": command(experiment, settings),
        "preset": settings.preset,
        "epochs": settings.epochs,
        "channels": settings.channels,
        "lam": settings.lam,
        "first_seed": settings.first_seed,
        "headline": findings.headline,
        "rule": findings.rule,
        "claims": [asdict(claim) for claim in findings.claims],
        "pictures": [{"name": p.name, "caption": p.caption} for p in findings.pictures],
        "tables": [asdict(table) for table in findings.tables],
        "settings": [list(line) for line in page.choices()],
        "reduced": list(experiment.preset(settings).reduced),
        "notes": list(findings.notes),
        "runs": len(page.runs) + page.elsewhere,
        "elsewhere": page.elsewhere,
        "missing": len(page.missing),
        "seconds": sum(run.result.seconds for run in page.runs),
    }


def command(experiment: Experiment, settings: Settings) -> str:
    """What makes the report again.

    >>> from ibnn.lab.experiments import get
    >>> command(get("controls"), Settings(preset="paper", dataset="digits", seeds=5))
    'ibnn run controls --dataset digits --preset paper --seeds 5'
    """
    chosen = {
        f"--{field.name.replace('_', '-')}": getattr(settings, field.name)
        for field in fields(settings)
        if field.name != "dataset" and getattr(settings, field.name) != field.default
    }
    options = {"--dataset": experiment.dataset(settings), **chosen}
    return " ".join(("ibnn run", experiment.name, *(f"{k} {v}" for k, v in options.items())))


def read_findings(file: Path) -> dict[str, Any] | None:
    """What a report left; None if another version of ibnn wrote it.

    Names of files in it must be names in its own folder: the file may come from anywhere.
    """
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        if found["version"] != FINDINGS_VERSION:
            return None
        names = [found["experiment"], *(picture["name"] for picture in found["pictures"])]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReportError(f"{file} cannot be read: {error!r}") from None
    for name in names:
        if not is_plain(name):
            raise ReportError(f"{file} names {name!r}, expected the name of a file beside it")
    return found


def is_plain(name: object) -> bool:
    """Whether this is a name without a folder.

    >>> is_plain("lam"), is_plain("../lam"), is_plain(".."), is_plain("a" + chr(92) + "b")
    (True, False, False, False)
    """
    return isinstance(name, str) and name not in ("", ".", "..") and not {*"/\\\0"} & {*name}
