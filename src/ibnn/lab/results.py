"""What a result is: claims, tables, pictures and rows, as data that a page is made from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Answer = Literal["yes", "no", "not decided"]

# When a claim is decided, unless an experiment says otherwise; a difference is Student's t over
# the pairs, as `ibnn.lab.stats.Paired` has it.
FEWEST_PAIRS = 5
RULE = (
    f"Yes and no need at least {FEWEST_PAIRS} pairs of equal seeds and a 95 % confidence interval "
    "of the mean difference that excludes zero; otherwise a claim is not decided here. Intervals "
    "are not corrected for the number of comparisons."
)


@dataclass(frozen=True)
class Picture:
    """A figure of the report: its file name without suffix, and what to see in it."""

    name: str
    figure: Figure
    caption: str


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, or a question of this project, and what was measured.

    Attributes:
        paper: the statement or the question.
        measured: what was measured, in a sentence.
        agrees: the answer.
        numbers: what decided it (mean, low, high, pairs of a difference, say), for machines.
        ours: whether it is a question of this project rather than a statement of the paper.
    """

    paper: str
    measured: str
    agrees: Answer
    numbers: Mapping[str, float] = field(default_factory=dict)
    ours: bool = False


def questions(claims: Iterable[Claim]) -> list[Claim]:
    """These claims as questions of this project.

    >>> [claim.ours for claim in questions([Claim("More accurate?", "+1 point", "yes")])]
    [True]
    """
    return [replace(claim, ours=True) for claim in claims]


@dataclass(frozen=True)
class Table:
    """Further numbers for readers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    @classmethod
    def of(cls, title: str, rows: Sequence[Mapping[str, str]]) -> Table:
        """A table of rows that name their columns.

        >>> Table.of("Squares", [{"x": "2", "x²": "4"}, {"x": "3", "x²": "9"}]).columns
        ('x', 'x²')
        """
        columns = tuple(rows[0]) if rows else ()
        return cls(title, columns, [tuple(row[name] for name in columns) for row in rows])


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
    rule: str = RULE
