"""Writing a report: figures, CSV and page from what the runs left on disk; nothing is trained."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from ibnn.lab import files
from ibnn.lab.experiments.experiment import Experiment, ExperimentError, Settings
from ibnn.lab.experiments.registry import get
from ibnn.lab.files import StrPath
from ibnn.lab.plotting.style import style
from ibnn.lab.report.elsewhere import Elsewhere
from ibnn.lab.report.output import csv_text, image_bytes
from ibnn.lab.report.page import FINDINGS, Page, ReportError, is_plain, render, summary
from ibnn.lab.runner import collect

ABOUT = "experiment.json"
PAGE = "report.html"
VERSION = 1  # of experiment.json


def report_folder(experiment: Experiment, settings: Settings, root: StrPath) -> Path:
    """Where the report goes: beside `runs`, so that experiments share them."""
    name = f"{experiment.name}-{Path(experiment.dataset(settings)).stem}"
    if settings.channels:
        name += f"-{settings.channels}-channels"
    if settings.lam not in (None, "learnt"):
        name += f"-lam-{settings.lam}"
    if settings.first_seed:
        name += f"-from-seed-{settings.first_seed}"
    return Path(root) / name


def write_report(
    experiment: Experiment,
    settings: Settings,
    root: StrPath,
    data_root: StrPath | None = None,
    on_measure: Callable[[int, int], None] | None = None,
    add: StrPath | None = None,
) -> Path:
    """Write `<root>/<experiment>-<dataset>/report.html` and what belongs to it.

    Args:
        on_measure: called with (runs measured so far, of how many).
        add: CSV of an exported report, whose networks join those trained here, now and later.
    """
    folder = report_folder(experiment, settings, root)
    runs, missing = collect(experiment, settings, root, data_root, on_measure)
    if not runs:
        raise ReportError(f"no run of {experiment.name} is finished in {root}")
    others = Elsewhere(folder, experiment, settings, add)
    with style():
        findings = others.find(runs)
        assert all(is_plain(picture.name) for picture in findings.pictures)
        images = {
            f"{picture.name}.{kind}": image_bytes(picture.figure, kind)
            for picture in findings.pictures
            for kind in ("png", "pdf")
        }
    elsewhere = {row["run"] for row in others.without(runs)}
    left = [config for config in missing if config.identity() not in elsewhere]
    page = Page(experiment, settings, findings, runs, left, len(missing) - len(left))
    table = csv_text(findings.rows)
    html = render(page, images, f"{experiment.name}.csv")
    # Everything is made before anything is written.
    folder.mkdir(parents=True, exist_ok=True)
    about = {"version": VERSION, "experiment": experiment.name, "settings": asdict(settings)}
    files.write_json(folder / ABOUT, about)
    others.keep()
    for name, content in images.items():
        files.write_bytes(folder / name, content)
    files.write_text(folder / f"{experiment.name}.csv", table)
    files.write_json(folder / FINDINGS, summary(page))
    files.write_text(folder / PAGE, html)
    return folder / PAGE


def find_reports(folder: StrPath) -> list[Path]:
    """The report folders meant: the folder itself, or those in it."""
    path = _named(folder)
    if not path.is_dir():
        raise ReportError(f"{folder} is not a folder")
    if (path / ABOUT).is_file():
        return [path]
    found = sorted(file.parent for file in path.glob(f"*/{ABOUT}"))
    if not found:
        raise ReportError(f"{folder} has no report: {ABOUT} is neither in it nor one level below")
    return found


def rebuild(folder: StrPath, add: StrPath | None = None, data_root: StrPath | None = None) -> Path:
    """Make a report again from its runs; those of an exported CSV join them with `add`."""
    file = Path(folder) / ABOUT
    try:
        about = json.loads(file.read_text())
        experiment, settings = get(about["experiment"]), Settings(**about["settings"])
        experiment.check(settings)
    except KeyError as error:
        raise ReportError(f"{file} cannot be used: it has no {error}") from None
    except (OSError, ValueError, TypeError, ExperimentError) as error:
        raise ReportError(f"{file} cannot be used: {error}") from None
    return write_report(experiment, settings, _named(folder).parent, data_root, add=add)


def _named(folder: StrPath) -> Path:
    """The same folder with a name and a parent, which "." has not."""
    path = Path(folder)
    return path.resolve() if path.name in ("", "..") else path
