"""The idx format of MNIST and Fashion-MNIST: a magic number, the sizes, then the bytes."""

import gzip
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ibnn.lab.data import verify
from ibnn.lab.data.dataset import Dataset
from ibnn.lab.data.errors import DataError, every
from ibnn.lab.data.source import FolderSource, Remote

_UNSIGNED_BYTE = 0x08


def published(places: Sequence[str], table: str) -> tuple[tuple[Remote, ...], tuple[str, ...]]:
    """Files that are the same at several addresses, and the md5 sums of their unpacked contents.

    Args:
        table: a line for each file: its name without .gz, its size, its md5 sum, and that of its
            contents.
    """
    lines = [line.split() for line in table.strip().splitlines()]
    remotes = (
        Remote(tuple(f"{place}/{name}.gz" for place in places), md5, int(size))
        for name, size, md5, _ in lines
    )
    return tuple(remotes), tuple(content for *_, content in lines)


@dataclass(frozen=True)
class IdxSource(FolderSource):
    """Four idx files in one folder: images and labels for training, then for testing."""

    files: tuple[tuple[Remote, ...], Sequence[str | None]]
    classes: int = 10

    @property
    def remotes(self) -> tuple[Remote, ...]:
        return self.files[0]

    def place(self, folder: Path, remote: Remote) -> Path | None:
        """Packed or unpacked."""
        packed = super().place(folder, remote)
        unpacked = (folder / remote.name).with_suffix("")
        return packed or (unpacked if unpacked.is_file() else None)

    def read(self, files: Sequence[Path]) -> Dataset:
        jobs = [
            partial(read_array, path, dimensions, md5)
            for path, dimensions, md5 in zip(files, (3, 1, 3, 1), self.files[1], strict=True)
        ]
        arrays = every(jobs)
        for i in (0, 2):
            verify.same_count(files[i], len(arrays[i]), files[i + 1], len(arrays[i + 1]))
            verify.labels(files[i + 1], arrays[i + 1], 0, self.classes - 1)
        if arrays[0].shape[1:] != arrays[2].shape[1:]:
            raise DataError(
                f"{files[2]}: expected images of {tuple(arrays[0].shape[1:])} as in {files[0]}, "
                f"found {tuple(arrays[2].shape[1:])}"
            )
        splits = (arrays[0][:, None], arrays[1], arrays[2][:, None], arrays[3])
        return Dataset.of_arrays(self.name, *splits, classes=self.classes)


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
