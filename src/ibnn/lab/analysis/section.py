"""What an analysis is given, and what it hands back: one section of the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ibnn.lab.data import Dataset
    from ibnn.lab.results import Picture, Table

# progress(done, total, what): called as often as an analysis likes; it never slows it down
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Subject:
    """What is analysed: a network, its twin without the implicit bias, and data to measure on."""

    network: nn.Module  # with implicit bias, trained so or converted; in eval mode
    twin: nn.Module  # the same weights with every implicit bias removed (ibnn.standard)
    dataset: Dataset
    x: Tensor  # images or points in [0, 1], of the network's dtype: a sample of the training data
    y: Tensor  # their labels
    seed: int
    quick: bool  # smaller numbers of everything: seconds instead of a minute


@dataclass(frozen=True)
class Section:
    """One part of the report."""

    name: str
    title: str
    text: Sequence[str]  # what was found, in sentences with numbers
    pictures: Sequence[Picture]
    tables: Sequence[Table]
    rows: Sequence[Mapping[str, Any]]  # of <name>.csv


class DoesNotApply(Exception):
    """Raised by an analysis that has nothing to say about this subject; the message says why."""
