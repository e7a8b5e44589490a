"""What a dataset of the catalogue must be able to do."""

from __future__ import annotations

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
        name: what it is asked for by.
        about: one line of `ibnn data list`.
        defaults: its network, attack strengths and sizes; None takes them from its image shape.
    """

    name: str
    about: str
    defaults: Defaults | None = field(default=None, kw_only=True)

    @abstractmethod
    def find(self, root: Path) -> list[Path] | None:
        """The files to read ([] if it needs none), or None if they are not all there."""

    @abstractmethod
    def read(self, files: Sequence[Path]) -> Dataset:
        """The dataset, or a DataError naming each file that is wrong and how."""

    @abstractmethod
    def advice(self, root: Path) -> str:
        """What a person has to put where."""

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
