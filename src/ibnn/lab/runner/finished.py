"""A finished run, as whoever makes something of it sees it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from ibnn.lab.data import Dataset
from ibnn.lab.files import StrPath
from ibnn.lab.training import (
    CheckpointError,
    Metrics,
    Result,
    RunConfig,
    RunFolder,
    examples,
)


@dataclass(frozen=True)
class Run:
    """A finished run, with what an experiment measured on it."""

    config: RunConfig
    result: Result
    folder: RunFolder
    measured: Mapping[str, Any]
    data_root: StrPath | None = None  # where its dataset is

    def examples(self) -> Dataset:
        """The examples it was trained and validated on."""
        return examples(self.config, self.data_root)

    def network(self) -> nn.Module:
        return self.folder.network()

    def validations(self) -> list[Metrics]:
        """What was measured after every epoch that is not of the warm-up.

        Raises:
            CheckpointError: the file of metrics lacks some of them: lines reach the disk later
                than the result, and a machine may have gone down in between.
        """
        found = [line for line in self.folder.metrics() if line.stage == "training"]
        expected = math.ceil(self.config.epochs / self.config.validate_every)
        if len(found) != expected:
            raise CheckpointError(
                f"{self.folder.metrics_file} has {len(found)} of {expected} validations; delete "
                f"{self.folder.result_file} to finish the run again"
            )
        return found
