"""What an evaluation found: numbers per attack, the worst case, the checks; as JSON and as text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ibnn.lab.attacks.checks.check import Check
from ibnn.lab.stats import percent
from ibnn.lab.stats.proportion import wilson

VERSION = 1


@dataclass(frozen=True)
class Row:
    """One attack. Broken images were right, and are wrong within eps; accuracies count all."""

    name: str
    norm: str
    uses_gradients: bool
    within_ball: bool  # same norm as the evaluation: part of the worst case
    broken: str  # one digit per image, 1 where it is broken
    robust_accuracy: float
    interval: tuple[float, float]
    median_distance: float | None  # over the broken images
    median_queries: float  # over the images that were right
    seconds: float


@dataclass(frozen=True)
class Certified:
    """Proven accuracies, as [eps, accuracy] pairs; or why there is no proof."""

    lipschitz: float | None = None
    accuracy: tuple[tuple[float, float], ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class Evaluation:
    """A model under attack on some images; all accuracies are between 0 and 1."""

    model: str
    lam: list[float]  # of each implicit layer; empty for a standard network
    images: int
    eps: float
    norm: str
    seed: int
    right: str  # one digit per image, 1 where the model is right without an attack
    clean_accuracy: float
    rows: tuple[Row, ...]
    robust_accuracy: float  # right under every attack within the ball
    checks: tuple[Check, ...]
    certified: Certified
    seconds: float
    version: int = VERSION

    @property
    def implicit(self) -> bool:
        return bool(self.lam)

    @property
    def failed(self) -> list[Check]:
        """Checks that did not pass."""
        return [check for check in self.checks if check.passed is False]

    def success(self) -> list[list[bool]]:
        """Which image (column) each attack (row) broke."""
        return [[digit == "1" for digit in row.broken] for row in self.rows]

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Evaluation:
        """From what `to_dict` gave, also after JSON."""
        if values.get("version") != VERSION:
            raise ValueError(f"evaluation has version {values.get('version')}, expected {VERSION}")
        rows = (Row(**{**row, "interval": tuple(row["interval"])}) for row in values["rows"])
        certified = {**values["certified"]}
        certified["accuracy"] = tuple(tuple(pair) for pair in certified["accuracy"])
        built = {
            "rows": tuple(rows),
            "checks": tuple(Check(**check) for check in values["checks"]),
            "certified": Certified(**certified),
        }
        return cls(**{**values, **built})

    @classmethod
    def from_json(cls, text: str) -> Evaluation:
        return cls.from_dict(json.loads(text))

    def text(self) -> str:
        """The table, the certificate and the checks for people."""
        lam = f" (lam {', '.join(f'{value:.3g}' for value in self.lam)})" if self.lam else ""
        lines = [
            f"{self.model}{lam}: {self.images} images, eps {self.eps:g} in {self.norm}, "
            f"seed {self.seed}, {self.seconds:.1f} s",
            "",
            *_table(self),
            "",
            *self._certified_lines(),
        ]
        if self.checks:
            lines += ["", "checks", *(f"  {check}" for check in self.checks)]
            names = ", ".join(check.name for check in self.failed)
            lines += ["", f"FAILED: {names}"] if names else ["", "no check failed"]
        return "\n".join(lines) + "\n"

    def _certified_lines(self) -> list[str]:
        if self.certified.reason:
            return [f"certified accuracy: not applicable, {self.certified.reason}"]
        pairs = ", ".join(
            f"{percent(fraction)} at {eps:.3g}" for eps, fraction in self.certified.accuracy
        )
        return [f"certified accuracy: {pairs} (no attack in {self.norm} can do better)"]


def _table(evaluation: Evaluation) -> list[str]:
    clean = sum(digit == "1" for digit in evaluation.right)
    robust = round(evaluation.robust_accuracy * evaluation.images)
    lines = [
        ("attack", "robust accuracy", "95 % interval", "distance", "queries", "seconds"),
        ("none", *_fraction(clean, evaluation.images), "", "", ""),
    ]
    for row in evaluation.rows:
        low, high = (100 * value for value in row.interval)
        lines.append(
            (
                row.name if row.within_ball else f"{row.name} (another ball)",
                percent(row.robust_accuracy),
                f"{low:.1f} to {high:.1f}",
                "-" if row.median_distance is None else f"{row.median_distance:.4g}",
                f"{row.median_queries:.0f}",
                f"{row.seconds:.1f}",
            )
        )
    lines.append(("all in the ball", *_fraction(robust, evaluation.images), "", "", ""))
    widths = [max(len(line[column]) for line in lines) for column in range(6)]
    return [
        "  ".join(
            cell.ljust(width) if not column else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def _fraction(hits: int, count: int) -> tuple[str, str]:
    low, high = (100 * value for value in wilson(hits, count))
    return percent(hits / count), f"{low:.1f} to {high:.1f}"
