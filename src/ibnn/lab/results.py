"""What a result is: claims, tables, pictures and rows, as data that a page is made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Answer = Literal["yes", "no", "not decided"]


@dataclass(frozen=True)
class Picture:
    """A figure of the report: its file name without suffix, and what to see in it."""

    name: str
    figure: Figure
    caption: str


@dataclass(frozen=True)
class Claim:
    """One line of the table "paper says / measured here"."""

    paper: str
    measured: str
    agrees: Answer


@dataclass(frozen=True)
class Table:
    """Further numbers for readers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What is made of the runs: everything a report shows that the experiment knows."""

    headline: str
    pictures: Sequence[Picture]
    claims: Sequence[Claim]
    rows: Sequence[Mapping[str, Any]]  # of the CSV, one per run or point
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()  # our choices where the paper is silent, and what to beware of
    settings: Sequence[tuple[str, str]] = ()
