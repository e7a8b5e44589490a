"""Cropped SVHN: two MATLAB files, images (32, 32, 3, N), the digit 0 labeled 10."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ibnn.lab.data import verify
from ibnn.lab.data.dataset import Dataset
from ibnn.lab.data.errors import DataError, every
from ibnn.lab.data.source import FolderSource, Remote


@dataclass(frozen=True)
class SvhnSource(FolderSource):
    """train_32x32.mat and test_32x32.mat."""

    train: Remote
    test: Remote

    @property
    def remotes(self) -> tuple[Remote, ...]:
        return self.train, self.test

    def read(self, files: Sequence[Path]) -> Dataset:
        sums = [remote.md5 for remote in self.remotes]
        jobs = [partial(read_mat, path, md5) for path, md5 in zip(files, sums, strict=True)]
        (x_train, y_train), (x_test, y_test) = every(jobs)
        return Dataset(self.name, x_train, y_train, x_test, y_test, 10, (3, 32, 32))


def read_mat(path: Path, md5: str | None = None) -> tuple[Tensor, Tensor]:
    """Images (N, 3, 32, 32) and labels 0..9 of one file."""
    try:
        from scipy.io import loadmat
    except ImportError as error:
        raise DataError("SVHN needs scipy: pip install 'ibnn[lab]'") from error

    verify.file_checksum(path, md5)
    try:
        contents = loadmat(path, variable_names=["X", "y"])
    except Exception as error:  # loadmat fails on damaged files in any way whatever
        raise DataError(f"{path}: truncated or not a MATLAB 5 file ({error})") from error
    for name in ("X", "y"):
        if name not in contents:
            raise DataError(f"{path}: expected the variables X and y, found no {name}")
    images, labels = np.asarray(contents["X"]), np.asarray(contents["y"]).reshape(-1)
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[:3] != (32, 32, 3):
        raise DataError(
            f"{path}: expected X to be uint8 of shape (32, 32, 3, N), "
            f"found {images.dtype} of shape {images.shape}"
        )
    if not np.issubdtype(labels.dtype, np.integer):
        raise DataError(f"{path}: expected y to hold integers, found {labels.dtype}")
    verify.same_count(f"{path}: X", images.shape[3], "y", len(labels))
    verify.labels(path, labels, 1, 10)
    planes = np.ascontiguousarray(images.transpose(3, 2, 0, 1))
    return torch.from_numpy(planes), torch.from_numpy(labels.astype(np.int64) % 10)
