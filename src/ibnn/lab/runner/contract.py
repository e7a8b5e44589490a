"""What the runner asks of an experiment; its settings are its own business."""

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from ibnn.lab.runner.finished import Run
from ibnn.lab.training import Result, RunConfig


class Experiment(Protocol):
    """See `ibnn.lab.experiments.Experiment`, which says what each of them is."""

    name: ClassVar[str]
    engine: ClassVar[str]
    measure_version: ClassVar[int]
    measured_as: ClassVar[str | None]
    renamed: ClassVar[Mapping[str, str]]

    def check(self, settings: Any, /) -> None: ...
    def dataset(self, settings: Any, /) -> str: ...
    def plan(self, settings: Any, results: Mapping[str, Result], /) -> list[RunConfig]: ...
    def measure(self, run: Run, /) -> dict[str, Any]: ...
