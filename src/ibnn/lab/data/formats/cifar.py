"""CIFAR-10 in its binary and its python version, unpacked or still in the archive."""

import tarfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ibnn.lab import files as lab_files
from ibnn.lab.data import download, verify
from ibnn.lab.data.dataset import Dataset
from ibnn.lab.data.errors import DataError, every
from ibnn.lab.data.formats.batch_pickle import read_batch_pickle
from ibnn.lab.data.source import Remote, Source

Batch = tuple[NDArray[np.uint8], NDArray[np.integer]]

_SHAPE = (3, 32, 32)
_PIXELS = 3 * 32 * 32
_BINARY, _PYTHON = "cifar-10-batches-bin", "cifar-10-batches-py"


@dataclass(frozen=True)
class CifarSource(Source):
    """Five training batches and a test batch; `binary` and `python` map file name to md5 sum."""

    archive: Remote
    binary: Mapping[str, str | None]
    python: Mapping[str, str | None]
    folders: tuple[str, ...] = ("", "cifar10", "CIFAR10")

    @property
    def remotes(self) -> tuple[Remote, ...]:
        return (self.archive,)

    def find(self, root: Path) -> list[Path] | None:
        for version, names in ((_BINARY, self.binary), (_PYTHON, self.python)):
            for folder in self.folders:
                paths = [root / folder / version / name for name in names]
                if all(path.is_file() for path in paths):
                    return paths
        for archive in (self.archive.name, "cifar-10-python.tar.gz"):
            for folder in self.folders:
                if (path := root / folder / archive).is_file():
                    return [path]
        return None

    def read(self, files: Sequence[Path]) -> Dataset:
        if len(files) == 1:
            packed = self._members(files[0])
            batches = every(partial(self._batch, where, data) for where, data in packed)
        else:
            batches = every(partial(self._read_file, path) for path in files)
        images = np.concatenate([pixels for pixels, _ in batches[:-1]])
        labels = np.concatenate([labels for _, labels in batches[:-1]])
        return Dataset.of_arrays(self.name, images, labels, *batches[-1], classes=10)

    def advice(self, root: Path) -> str:
        return (
            f"put {self.archive.name} (from {self.archive.urls[0]}), "
            f"or the folder {_BINARY} or {_PYTHON}, into {root}"
        )

    def download(self, root: Path) -> None:
        """Fetches the binary version, which needs no pickle, and unpacks it."""
        archive = download.fetch(self.archive, root)
        folder = root / _BINARY
        try:
            folder.mkdir(exist_ok=True)
            for where, data in self._members(archive):
                verify.checksum(where, data, self.binary[where.name])
                lab_files.write_bytes(folder / where.name, data)
            archive.unlink(missing_ok=True)
        except OSError as error:
            raise DataError(f"cannot write below {folder}: {error.strerror or error}") from error

    def _read_file(self, path: Path) -> Batch:
        return self._batch(path, verify.read(path))

    def _batch(self, path: Path, data: bytes) -> Batch:
        if path.name in self.binary:
            batch = read_binary(path, data)
            verify.checksum(path, data, self.binary[path.name])
        else:  # a pickle is not even looked at before its sum is right
            verify.checksum(path, data, self.python[path.name])
            batch = read_batch_pickle(path, data, _PIXELS)
        verify.labels(path, batch[1], 0, 9)
        return batch[0].reshape(-1, *_SHAPE), batch[1]

    def _members(self, archive: Path) -> list[tuple[Path, bytes]]:
        """The batches in a .tar.gz, by exact name; nothing is unpacked to disk."""
        found: dict[str, bytes] = {}
        wanted = {f"{_BINARY}/{name}" for name in self.binary}
        wanted |= {f"{_PYTHON}/{name}" for name in self.python}
        try:
            with tarfile.open(archive, "r:gz") as tar:
                for member in tar:
                    name = member.name.removeprefix("./")
                    if name in wanted and (file := tar.extractfile(member)):
                        found[name] = file.read()
        except (tarfile.TarError, EOFError, zlib.error) as error:
            raise DataError(f"{archive}: truncated or damaged archive ({error})") from error
        except OSError as error:
            raise DataError(f"{archive}: {error.strerror or error}") from error
        for version, names in ((_BINARY, self.binary), (_PYTHON, self.python)):
            inside = [f"{version}/{name}" for name in names]
            if all(name in found for name in inside):
                return [(archive / name, found[name]) for name in inside]
        lacking = sorted(f"{_BINARY}/{n}" for n in self.binary if f"{_BINARY}/{n}" not in found)
        raise DataError(f"{archive}: expected six batches inside, no {lacking[0]} found")


def read_binary(path: Path, data: bytes) -> Batch:
    """Images (N, 3072) and labels from records of one label byte and 3072 pixel bytes."""
    record = 1 + _PIXELS
    if not data or len(data) % record:
        raise DataError(
            f"{path}: expected a multiple of {record} bytes, found {len(data)} (truncated?)"
        )
    records = np.frombuffer(data, np.uint8).reshape(-1, record)
    return records[:, 1:], records[:, 0]
