"""A training frozen after an epoch: one safetensors file, so one atomic unit.

Weights, momentum and the metrics so far travel together: there is no moment at which one file
is of this epoch and another of the last. A checksum over all of it is checked before use.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from ibnn.lab import files
from ibnn.lab.training.errors import CheckpointError
from ibnn.lab.training.metrics import Metrics

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


def write(path: Path, previous: Path, checkpoint: Checkpoint) -> None:
    """Write atomically; the file that was there before becomes `previous`."""
    tensors = {f"weights/{name}": value for name, value in checkpoint.weights.items()}
    tensors |= {f"momentum/{name}": value for name, value in checkpoint.momentum.items()}
    tensors = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    about = json.dumps(
        {
            "version": VERSION,
            "identity": checkpoint.identity,
            "image_shape": checkpoint.image_shape,
            "classes": checkpoint.classes,
            "data": checkpoint.data,
            "epochs_done": checkpoint.epochs_done,
            "neuron": checkpoint.neuron,
            "metrics": [line.to_line() for line in checkpoint.metrics],
            "threads": checkpoint.threads,
        }
    )
    metadata = {"about": about, "sha256": digest(about, tensors)}
    with files.atomic(path) as file:
        file.write(save_tensors(tensors, metadata))
        # A kill from here on leaves `previous`, then both: never none.
        if path.exists():
            os.replace(path, previous)


def read(path: Path) -> Checkpoint:
    """Read and check one checkpoint file."""
    try:
        raw = path.read_bytes()
        tensors = load_tensors(raw)
        length = int.from_bytes(raw[:8], "little")
        metadata = json.loads(raw[8 : 8 + length]).get("__metadata__", {})
        about_text, expected = metadata["about"], metadata["sha256"]
    except FileNotFoundError:
        raise CheckpointError(f"{path} does not exist") from None
    except (SafetensorError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise CheckpointError(f"{path} is damaged: {error}") from None
    if expected != digest(about_text, tensors):
        raise CheckpointError(f"{path} is damaged: its checksum does not fit its contents")
    about = json.loads(about_text)
    if about["version"] != VERSION:
        raise CheckpointError(f"{path} has version {about['version']}, expected {VERSION}")
    return Checkpoint(
        identity=about["identity"],
        image_shape=tuple(about["image_shape"]),
        classes=about["classes"],
        data=about["data"],
        epochs_done=about["epochs_done"],
        neuron=about["neuron"],
        weights=_part(tensors, "weights/"),
        momentum=_part(tensors, "momentum/"),
        metrics=tuple(Metrics.from_dict(json.loads(line)) for line in about["metrics"]),
        threads=tuple(about["threads"]),
    )


def read_latest(path: Path, previous: Path) -> Checkpoint | None:
    """The newest whole checkpoint, None when there never was one.

    A damaged file falls back to the one before it; two damaged files are an error.
    """
    if not path.exists() and not previous.exists():
        return None
    problems: list[str] = []
    for candidate in (path, previous):
        if candidate.exists():
            try:
                return read(candidate)
            except CheckpointError as error:
                problems.append(str(error))
    raise CheckpointError(f"{'; '.join(problems)}; delete {path.parent} to train the run again")


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }


def digest(about: str, tensors: dict[str, Tensor]) -> str:
    """The checksum of a text and named tensors."""
    state = hashlib.sha256(about.encode())
    for name, value in sorted(tensors.items()):
        state.update(f"\n{name} {value.dtype} {tuple(value.shape)}\n".encode())
        state.update(value.flatten().view(torch.uint8).numpy().data)
    return state.hexdigest()
