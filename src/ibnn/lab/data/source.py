"""What a dataset of the catalogue must be able to do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ibnn.lab.data.dataset import Dataset
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
    """A dataset by name: how it is found, fetched and read."""

    name: str
    about: str

    @abstractmethod
    def find(self, root: Path) -> list[Path] | None:
        """The files to read ([] if it needs none), or None if they are not all there."""

    @abstractmethod
    def read(self, files: Sequence[Path]) -> Dataset:
        """The dataset, or a DataError naming each file that is wrong and how."""

    @abstractmethod
    def advice(self, root: Path) -> str:
        """What a person has to put where."""

    @property
    def remotes(self) -> tuple[Remote, ...]:
        """What can be downloaded; nothing by default."""
        return ()

    def download(self, root: Path) -> None:
        """Fetches what is missing below `root`."""
        raise DataError(f"there is no official address for {self.name}")
