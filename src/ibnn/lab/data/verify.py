"""The checks every file goes through before its contents are used."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ibnn.lab.data.errors import DataError


def read(path: Path) -> bytes:
    """All bytes of a file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from error


def file_md5(path: Path) -> str:
    """The md5 sum of a file: what publishers of datasets give."""
    return _file_digest(path, hashlib.md5(usedforsecurity=False))


def file_sha256(path: Path) -> str:
    """The sha256 sum of a file; worked out again only if the file has changed."""
    try:
        about = path.stat()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from error
    return _sha256(path.absolute(), about.st_ino, about.st_size, about.st_mtime_ns)


@lru_cache(maxsize=64)
def _sha256(path: Path, *_: int) -> str:
    return _file_digest(path, hashlib.sha256())


def _file_digest(path: Path, digest: hashlib._Hash) -> str:
    try:
        with path.open("rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from error
    return digest.hexdigest()


def checksum(where: str | Path, data: bytes, md5: str | None) -> None:
    """Refuses `data` whose md5 sum is not the published one (None: none was published)."""
    compare_md5(where, md5, lambda: hashlib.md5(data, usedforsecurity=False).hexdigest())


def file_checksum(path: Path, md5: str | None) -> None:
    """The same for a file on disk, before anything reads it."""
    compare_md5(path, md5, lambda: file_md5(path))


def compare_md5(where: str | Path, expected: str | None, found: Callable[[], str]) -> None:
    """Refuses a sum that is not the expected one, which is only worked out if there is one."""
    if expected is not None and (actual := found()) != expected:
        raise DataError(f"{where}: expected md5 {expected}, found {actual}")


def compare_sha256(where: str | Path, expected: str, arrays: Iterable[NDArray[np.generic]]) -> None:
    """Refuses numbers that are not the expected ones, whatever file they come from."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    if digest.hexdigest() != expected:
        raise DataError(
            f"{where}: its images and labels have sha256 {digest.hexdigest()}, expected {expected}"
        )


def labels(where: str | Path, values: NDArray[np.integer], lowest: int, highest: int) -> None:
    """Refuses labels outside lowest..highest."""
    outside = np.flatnonzero((values < lowest) | (values > highest))
    if outside.size:
        at = int(outside[0])
        raise DataError(
            f"{where}: expected labels {lowest}..{highest}, found {int(values[at])} at example {at}"
        )


def same_count(images_in: str | Path, images: int, labels_in: str | Path, labels: int) -> None:
    """Refuses images and labels that cannot belong together."""
    if images != labels:
        raise DataError(f"{images_in} has {images} images but {labels_in} has {labels} labels")
