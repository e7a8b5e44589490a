"""What a dataset of the catalogue must be able to do."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ibnn.lab.data.dataset import Dataset
from ibnn.lab.data.dataset_defaults import Defaults
from ibnn.lab.data.errors import DataError


@dataclass(frozen=True)
class Remote:
    """A file somebody publishes: its addresses (tried in order), md5 sum and size in bytes."""

    urls: tuple[str, ...]
    md5: str
    size: int

    @property
    def name(self) -> str:
        return self.urls[0].rsplit("/", 1)[-1]


@dataclass(frozen=True)
class Source(ABC):
    """A dataset by name: how it is found, fetched and read, and what it is by default.

    Args:
        name: the name users give.
        about: one line of `ibnn data list`.
        defaults: its network, attack strengths and sizes; None takes them from its image shape.
    """

    name: str
    about: str
    defaults: Defaults | None = field(default=None, kw_only=True)

    def find(self, root: Path) -> list[Path] | None:
        """The files to read, or None if they are not all there; by default it needs none."""
        return []

    @abstractmethod
    def read(self, files: Sequence[Path]) -> Dataset:
        """The dataset, or a DataError naming each file that is wrong and how."""

    def advice(self, root: Path) -> str:
        """What a person has to put where."""
        return "nothing is needed"

    def image_shape(self, files: Sequence[Path]) -> tuple[int, ...]:
        """The shape of one example; a format that knows it without reading everything says so."""
        return self.read(files).image_shape

    @property
    def remotes(self) -> tuple[Remote, ...]:
        """What can be downloaded; nothing by default."""
        return ()

    def download(self, root: Path) -> None:
        """Fetches what is missing below `root`."""
        raise DataError(f"there is no official address for {self.name}")


@dataclass(frozen=True)
class FileSource(Source):
    """One file, below the root or anywhere (an absolute path)."""

    file: str

    def find(self, root: Path) -> list[Path] | None:
        path = root / self.file
        return [path] if path.is_file() else None

    def advice(self, root: Path) -> str:
        return f"put {Path(self.file).name} into {(root / self.file).parent}"


@dataclass(frozen=True)
class FolderSource(Source):
    """Published files in one of several folders below the root; downloads go to the first."""

    folders: tuple[str, ...]

    def place(self, folder: Path, remote: Remote) -> Path | None:
        """Where the file is in a folder; None if it is not."""
        path = folder / remote.name
        return path if path.is_file() else None

    def find(self, root: Path) -> list[Path] | None:
        folder, missing = self._missing(root)
        if missing:
            return None
        return [path for remote in self.remotes if (path := self.place(folder, remote))]

    def advice(self, root: Path) -> str:
        folder, missing = self._missing(root)
        names = [remote.name for remote in missing]
        if len(names) > 2:
            names = [f"{names[0]} and {len(names) - 1} more"]
        where = self.remotes[0].urls[0].rsplit("/", 1)[0]
        return f"put {' and '.join(names)} (from {where}) into {folder}"

    def download(self, root: Path) -> None:
        from ibnn.lab.data import download

        folder, missing = self._missing(root)
        for remote in missing:
            download.fetch(remote, folder)

    def _missing(self, root: Path) -> tuple[Path, list[Remote]]:
        """The folder that lacks least, and what it lacks."""
        gaps = [
            (root / name, [r for r in self.remotes if not self.place(root / name, r)])
            for name in self.folders
        ]
        return min(gaps, key=lambda gap: len(gap[1]))
