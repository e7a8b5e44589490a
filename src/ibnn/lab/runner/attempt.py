"""One attempt at one run, in whichever process: its exceptions become text, never a crash."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from ibnn.lab import data
from ibnn.lab.training import (
    Metrics,
    RunConfig,
    RunFolder,
    RunLockedError,
    load_dataset,
    make_listeners,
    train,
)


class Attempts:
    """Trains one run after the other and keeps the dataset of the last one in memory."""

    def __init__(
        self,
        root: str | Path,
        data_root: str | Path | None,
        checkpoint_seconds: float = 1.0,
        device: str = "cpu",
        log: Sequence[str] = (),
    ):
        self.root = root
        self.data_root = data_root
        self.checkpoint_seconds = checkpoint_seconds
        self.device = device
        self.log = log
        self._dataset: tuple[str, data.Dataset] | None = None

    def __call__(self, config: RunConfig, on_epoch: Callable[[Metrics], None]) -> str:
        """Train; the empty text means finished, otherwise why not, and the traceback."""
        try:
            train(
                config,
                self.root,
                dataset=self._load(config),
                device=self.device,
                on_epoch=on_epoch,
                listeners=make_listeners(self.log),
                checkpoint_seconds=self.checkpoint_seconds,
            )
        except Exception as error:
            return record(self.root, config, error)
        return ""

    def _load(self, config: RunConfig) -> data.Dataset:
        name = f"{config.dataset} {config.data_checksum}"
        if self._dataset is None or self._dataset[0] != name:
            self._dataset = (name, load_dataset(config, self.data_root))
        return self._dataset[1]


def record(root: str | Path, config: RunConfig, error: Exception) -> str:
    """Keep why the run failed in its folder, unless the folder is another process's."""
    reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
    trace = "".join(traceback.format_exception(error))
    if not isinstance(error, RunLockedError):
        RunFolder(root, config.identity()).fail(reason, trace)
    return f"{reason}\n\n{trace}"
