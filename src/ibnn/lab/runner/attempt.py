"""One attempt at one run, in whichever process: its exceptions become text, never a crash."""

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
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


@dataclass
class Attempts:
    """Trains one run after the other and keeps the dataset of the last one in memory.

    Args:
        root, data_root, checkpoint_seconds, device, log: see `RunnerOptions`.
        dataset: of every run, where it is loaded already.
    """

    root: str | Path
    data_root: str | Path | None
    checkpoint_seconds: float = 1.0
    device: str = "cpu"
    log: Sequence[str] = ()
    dataset: data.Dataset | None = None
    _last: tuple[str, data.Dataset] | None = field(default=None, init=False)

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
        if self.dataset is not None:
            return self.dataset
        name = f"{config.dataset} {config.data_checksum}"
        if self._last is None or self._last[0] != name:
            self._last = (name, load_dataset(config, self.data_root))
        return self._last[1]


def record(root: str | Path, config: RunConfig, error: Exception) -> str:
    """Keep why the run failed in its folder, unless the folder is another process's."""
    reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
    trace = "".join(traceback.format_exception(error))
    if not isinstance(error, RunLockedError):
        RunFolder(root, config.identity()).fail(reason, trace)
    return f"{reason}\n\n{trace}"
