"""A training frozen after an epoch: one safetensors file, so one atomic unit.

Weights, momentum and the metrics so far travel together: there is no moment at which one file
is of this epoch and another of the last. A checksum over all of it is checked before use.
"""

import json
import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from torch import Tensor

from ibnn.lab import files
from ibnn.lab.training.errors import CheckpointError
from ibnn.lab.training.result import Metrics
from ibnn.lab.training.tensor_file import packed, unpack

VERSION = 1


@dataclass(frozen=True)
class Checkpoint:
    """What a training needs to go on, and a reader to rebuild the network."""

    identity: str
    image_shape: tuple[int, ...]
    classes: int
    data: str  # checksum of the data trained on
    epochs_done: int  # warm-up included
    neuron: str  # of the network the weights belong to
    weights: dict[str, Tensor]
    momentum: dict[str, Tensor]
    metrics: tuple[Metrics, ...]
    threads: tuple[int, ...]  # every thread count the training has used
    devices: tuple[str, ...] = ()  # every device it has been on; not known of runs of 0.1


# what is written as it is
_PLAIN = [
    field.name
    for field in fields(Checkpoint)
    if field.name not in ("weights", "momentum", "metrics")
]


def write(path: Path, previous: Path, checkpoint: Checkpoint) -> None:
    """Write atomically; the file that was there before becomes `previous`."""
    tensors = {f"weights/{name}": value for name, value in checkpoint.weights.items()}
    tensors |= {f"momentum/{name}": value for name, value in checkpoint.momentum.items()}
    about = {
        "version": VERSION,
        **{name: getattr(checkpoint, name) for name in _PLAIN},
        "metrics": [line.to_line() for line in checkpoint.metrics],
    }
    with files.atomic(path) as file:
        file.write(packed(about, tensors))
        files.sync(file)
        # The new one is on the disk. A kill from here on leaves `previous`, then both: never none.
        if path.exists():
            os.replace(path, previous)


def read(path: Path) -> Checkpoint:
    """Read and check one checkpoint file."""
    about, tensors = unpack(path)
    if about["version"] != VERSION:
        raise CheckpointError(f"{path} has version {about['version']}, expected {VERSION}")
    # JSON has lists where tuples were written
    plain: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in about.items()
        if name in _PLAIN
    }
    return Checkpoint(
        weights=_part(tensors, "weights/"),
        momentum=_part(tensors, "momentum/"),
        metrics=tuple(Metrics.from_dict(json.loads(line)) for line in about["metrics"]),
        **plain,
    )


def read_latest(path: Path, previous: Path) -> Checkpoint | None:
    """The newest whole checkpoint, None when there never was one.

    A damaged file falls back to the one before it; two damaged files are an error.
    """
    return _newest(path, previous)[0]


def recover(path: Path, previous: Path) -> Checkpoint | None:
    """As `read_latest`, for who goes on training: a damaged newest file gives way to `previous`.

    Otherwise the next `write` would make the damaged one `previous`, over the only whole one.
    """
    latest, found = _newest(path, previous)
    if latest is not None and found == previous:
        os.replace(previous, path)
    return latest


def _newest(path: Path, previous: Path) -> tuple[Checkpoint | None, Path]:
    """The newest whole checkpoint and the file it is in."""
    problems: list[str] = []
    for candidate in (path, previous):
        if candidate.exists():
            try:
                return read(candidate), candidate
            except CheckpointError as error:
                problems.append(str(error))
    if problems:
        raise CheckpointError(f"{'; '.join(problems)}; delete {path.parent} to train the run again")
    return None, path


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }
