"""What a check is given, and what it returns: one section of the report."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from ibnn.lab.data import Dataset
from ibnn.lab.results import Claim, Picture, Table

# progress(done, total, what): called as often as a check likes; it never slows it down
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Context:
    """A network, the same weights without implicit bias, and data to measure on.

    Args:
        network: with implicit layers, trained so or converted; in eval mode. Its passes over x
            run on its device; what is computed of single layers and rows, on the processor.
        standard: the network with every implicit bias removed (`ibnn.standard`).
        dataset: what the network classifies; some checks train small networks on it, on the
            processor.
        x: a sample of the training data, in [0, 1], of the network's dtype, on its device.
        y: the labels of x.
        seed: of every random choice of a check.
        quick: smaller numbers of everything: seconds instead of a minute.
    """

    network: nn.Module
    standard: nn.Module
    dataset: Dataset
    x: Tensor
    y: Tensor
    seed: int = 0
    quick: bool = False


@dataclass(frozen=True, kw_only=True)
class Section:
    """What one check found. Every judgment is a claim; notes give numbers and how they were got."""

    name: str
    title: str
    claims: Sequence[Claim]
    notes: Sequence[str] = ()
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()
    rows: Sequence[Mapping[str, Any]] = ()  # of <name>.csv


Check = Callable[[Context, Progress], Section]


class DoesNotApply(Exception):
    """Raised by a check that does not apply to this network or data; says why."""
