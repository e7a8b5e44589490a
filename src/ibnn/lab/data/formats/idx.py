"""The idx format of MNIST and Fashion-MNIST: a magic number, the sizes, then the bytes."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ibnn.lab.data import download, verify
from ibnn.lab.data.dataset import Dataset
from ibnn.lab.data.errors import DataError, every
from ibnn.lab.data.source import Remote, Source

_UNSIGNED_BYTE = 0x08


@dataclass(frozen=True)
class IdxFile:
    """One of the four files: where it is published and the md5 sum of its unpacked contents."""

    remote: Remote
    content_md5: str | None

    def find(self, folder: Path) -> Path | None:
        """The file in `folder`, packed or unpacked."""
        packed = folder / self.remote.name
        unpacked = packed.with_suffix("")
        return packed if packed.is_file() else unpacked if unpacked.is_file() else None


def published(
    places: Sequence[str], name: str, size: int, md5: str, content_md5: str | None
) -> IdxFile:
    """A file that is the same at several addresses."""
    return IdxFile(Remote(tuple(f"{place}/{name}" for place in places), md5, size), content_md5)


@dataclass(frozen=True)
class IdxSource(Source):
    """Four idx files in one folder; the first of `folders` is where downloads go."""

    folders: tuple[str, ...]
    train_images: IdxFile
    train_labels: IdxFile
    test_images: IdxFile
    test_labels: IdxFile
    classes: int = 10

    @property
    def files(self) -> tuple[IdxFile, ...]:
        return self.train_images, self.train_labels, self.test_images, self.test_labels

    @property
    def remotes(self) -> tuple[Remote, ...]:
        return tuple(file.remote for file in self.files)

    def find(self, root: Path) -> list[Path] | None:
        folder, missing = self._missing(root)
        if missing:
            return None
        return [path for file in self.files if (path := file.find(folder))]

    def read(self, files: Sequence[Path]) -> Dataset:
        sums = [file.content_md5 for file in self.files]
        jobs = [
            partial(read_array, path, dimensions, md5)
            for path, dimensions, md5 in zip(files, (3, 1, 3, 1), sums, strict=True)
        ]
        arrays = every(jobs)
        for i in (0, 2):
            verify.same_count(files[i], len(arrays[i]), files[i + 1], len(arrays[i + 1]))
            verify.labels(files[i + 1], arrays[i + 1], 0, self.classes - 1)
        images = [torch.from_numpy(array).unsqueeze(1) for array in arrays[::2]]
        labels = [torch.from_numpy(array.astype(np.int64)) for array in arrays[1::2]]
        if images[0].shape[1:] != images[1].shape[1:]:
            raise DataError(
                f"{files[2]}: expected images of {tuple(arrays[0].shape[1:])} as in {files[0]}, "
                f"found {tuple(arrays[2].shape[1:])}"
            )
        return Dataset(
            self.name,
            images[0],
            labels[0],
            images[1],
            labels[1],
            self.classes,
            tuple(images[0].shape[1:]),
        )

    def advice(self, root: Path) -> str:
        folder, missing = self._missing(root)
        names = ", ".join(file.remote.name for file in missing)
        place = self.train_images.remote.urls[0].rsplit("/", 1)[0]
        return f"put {names} (from {place}) into {folder}"

    def download(self, root: Path) -> None:
        folder, missing = self._missing(root)
        for file in missing:
            download.fetch(file.remote, folder)

    def _missing(self, root: Path) -> tuple[Path, list[IdxFile]]:
        """The folder that lacks least, and what it lacks."""
        gaps = [
            (root / name, [file for file in self.files if not file.find(root / name)])
            for name in self.folders
        ]
        return min(gaps, key=lambda gap: len(gap[1]))


def read_array(path: Path, dimensions: int, md5: str | None = None) -> NDArray[np.uint8]:
    """The array in an idx file of unsigned bytes, packed with gzip or not."""
    data = _unpacked(path)
    expected = _UNSIGNED_BYTE << 8 | dimensions
    start = 4 + 4 * dimensions
    if len(data) < start:
        raise DataError(f"{path}: expected an idx header of {start} bytes, found {len(data)}")
    magic, *shape = struct.unpack_from(f">{1 + dimensions}I", data)
    if magic != expected:
        raise DataError(f"{path}: expected magic number {expected}, found {magic}")
    count = math.prod(shape)
    if len(data) - start != count:
        sizes = " x ".join(map(str, shape))
        raise DataError(
            f"{path}: expected {count} bytes for {sizes}, found {len(data) - start} (truncated?)"
        )
    verify.checksum(path, data, md5)
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape).copy()


def _unpacked(path: Path) -> bytes:
    data = verify.read(path)
    if path.suffix != ".gz":
        return data
    try:
        return gzip.decompress(data)
    except EOFError as error:
        raise DataError(f"{path}: truncated gzip file of {len(data)} bytes") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path}: damaged gzip file ({error})") from error
