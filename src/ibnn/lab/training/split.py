"""The examples of a run: the dataset cut and spoilt as its config says."""

from __future__ import annotations

import zlib

from ibnn.lab.data import Dataset
from ibnn.lab.training.config import RunConfig


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
