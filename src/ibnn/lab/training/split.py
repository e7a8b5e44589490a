"""The examples of a run: the dataset cut and spoilt as its config says."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

from ibnn.lab import data
from ibnn.lab.data import Dataset
from ibnn.lab.training.config import RunConfig
from ibnn.lab.training.errors import CheckpointError


def with_checksum(config: RunConfig) -> RunConfig:
    """The config of a run on a user's own file with the sum of its contents, which names the run.

    Neither another path of the same file nor an edited file of the same path is then mistaken.
    Configs of datasets known by name, and those that have a sum, come back as they are.
    """
    if config.data_checksum is not None or not config.dataset.endswith(".npz"):
        return config
    path = Path(config.dataset).expanduser().absolute()
    return config.replace(dataset=str(path), data_checksum=data.content_checksum(path))


def load_dataset(config: RunConfig, data_root: str | os.PathLike[str] | None = None) -> Dataset:
    """The dataset of a run, whole; refused if its file is no longer the one the run is about."""
    if config.data_checksum is not None:
        found = data.content_checksum(config.dataset)
        if found != config.data_checksum:
            raise CheckpointError(
                f"{config.dataset} has changed: its checksum is {found}, the run's data had "
                f"{config.data_checksum}"
            )
    return data.load(config.dataset, data_root)


def examples(config: RunConfig, data_root: str | os.PathLike[str] | None = None) -> Dataset:
    """What a run trains and validates on, from disk."""
    return prepare(config, load_dataset(config, data_root))


def prepare(config: RunConfig, dataset: Dataset) -> Dataset:
    """What this run trains on (`x_train`) and validates on (`x_test`)."""
    seed = config.seed if config.data_seed is None else config.data_seed
    split = dataset.first(
        config.n_train or len(dataset.x_train), config.n_test or len(dataset.x_test)
    )
    if config.hold_out:
        split, _ = split.hold_out(config.hold_out, seed)
    if config.share < 1:
        split = split.subset(config.share, seed)
    if config.label_noise:
        split = split.with_label_noise(config.label_noise, seed)
    return split


def fingerprint(split: Dataset) -> str:
    """A checksum of all examples and labels: a run never goes on with other data."""
    total = 0
    for tensor in (split.x_train, split.y_train, split.x_test, split.y_test):
        total = zlib.crc32(tensor.contiguous().numpy().data, total)
    return f"{total:08x}"
