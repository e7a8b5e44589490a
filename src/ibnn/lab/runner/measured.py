"""What an experiment measures on a finished run: once, and kept as JSON beside its result."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from ibnn.lab import files
from ibnn.lab.runner.contract import Experiment
from ibnn.lab.runner.finished import Run
from ibnn.lab.training import RunFolder


def measured(experiment: Experiment, run: Run) -> Run:
    """The run with its measurements, made now if they are not there."""
    values = stored(experiment, run.folder)
    if values is None:
        values = experiment.measure(run)
        if values:
            file, *_ = _files(experiment, run.folder)
            files.write_json(file, {"version": experiment.measure_version, "values": values})
    named = {experiment.renamed.get(name, name): value for name, value in values.items()}
    return replace(run, measured=named)


def stored(experiment: Experiment, folder: RunFolder) -> Mapping[str, Any] | None:
    """The measurements in a run's folder; None if there are none, or only older or damaged ones."""
    for file in _files(experiment, folder):
        with suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads(file.read_text())
            if found["version"] == experiment.measure_version:
                return found["values"]
    return None


def _files(experiment: Experiment, folder: RunFolder) -> list[Path]:
    """Where they may be: those shared with another experiment, then its own.

    An experiment that shares them now may have kept its own before.
    """
    names = dict.fromkeys((experiment.measured_as or experiment.name, experiment.name))
    return [folder.path / f"measured-{name}.json" for name in names]
