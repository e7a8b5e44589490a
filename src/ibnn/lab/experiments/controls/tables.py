"""The arms side by side, in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from ibnn.lab.experiments.controls.arms import (
    AGAINST_NEGATIVE,
    ARMS,
    CLOSE,
    FURTHER,
    IMPLICIT,
    NEGATIVE,
    STANDARD,
)
from ibnn.lab.experiments.controls.claims import family, kept, matched, saved
from ibnn.lab.experiments.controls.families import Judged
from ibnn.lab.experiments.controls.record import Record, Records
from ibnn.lab.results import Table
from ibnn.lab.stats import Paired, paired, percent, spread


def accuracy_table(records: Records) -> Table:
    """Best and last accuracy of every arm, against the standard and the implicit network."""
    judged = _families(records)
    rows = []
    for arm in _ordered(records):
        over = paired(records.best(arm), records.best(STANDARD)) if arm != STANDARD else None
        share = kept(records, arm) if arm not in (STANDARD, IMPLICIT) else None
        comparison = judged.get(arm)
        rows.append(
            (
                arm,
                str(len(records.of(arm))),
                spread(list(records.best(arm).values())),
                percent(median(records.last(arm).values())),
                _points(over),
                "" if share is None else f"{100 * share:.0f} %",
                "" if comparison is None else comparison.text(),
                "" if comparison is None else comparison.outcome,
            )
        )
    return Table(
        "Accuracy of every arm: median (range); differences: mean (95 % interval)",
        (
            "Arm",
            "Networks",
            "Best epoch",
            "Last epoch",
            "Minus standard",
            "Of the gain",
            "Implicit minus arm, best epoch",
            "Implicit is",
        ),
        rows,
    )


def speed_table(records: Records) -> Table:
    """When each arm has the standard network's best, and epochs saved."""
    rows = []
    for arm in _ordered(records):
        reading = matched(records, arm)
        reached = None if reading is None else reading[2]
        fewer = saved(records, arm) if arm != STANDARD else None
        rows.append(
            (
                arm,
                "never" if reached is None else f"{reached:.1f}",
                "" if fewer is None else _epochs(fewer),
                _lam(records.of(arm)),
                f"{records.of(arm)[0].parameters:,}",
            )
        )
    return Table(
        "Epochs: when the arm's median reaches the standard median's best; epochs saved against "
        "the standard twin",
        ("Arm", "Standard best in epoch", "Epochs saved", "lam", "Parameters"),
        rows,
    )


def robust_table(records: Records, eps: Sequence[float]) -> Table:
    """White-box accuracy at every eps, and the mean that decides."""
    judged = family(records.robust, NEGATIVE, AGAINST_NEGATIVE)
    rows = []
    for arm in _ordered(records):
        attacked = [record for record in records.of(arm) if record.attacked]
        if not attacked:
            continue
        curve = [median(values) for values in zip(*(r.attacked for r in attacked), strict=True)]
        over = paired(records.robust(arm), records.robust(STANDARD)) if arm != STANDARD else None
        rows.append(
            (
                arm,
                *(percent(value) for value in curve),
                percent(median(records.robust(arm).values())),
                _points(over),
                judged[arm].text() if arm in judged else "",
            )
        )
    return Table(
        "White-box PGD accuracy, medians; differences of the mean over eps above 0",
        (
            "Arm",
            *(f"eps {value:.3g}" for value in eps),
            "Mean",
            "Minus standard",
            f"({NEGATIVE}) minus arm",
        ),
        rows,
    )


def _families(records: Records) -> dict[str, Judged]:
    found = {STANDARD: family(records.best, IMPLICIT, [STANDARD])[STANDARD]}
    found |= family(records.best, IMPLICIT, CLOSE)
    return found | family(records.best, IMPLICIT, FURTHER)


def _ordered(records: Records) -> list[str]:
    return [name for name in ARMS if records.of(name)]


def _points(found: Paired | None) -> str:
    if found is None:
        return ""
    mean, low, high = found.signed(100, 2)
    return f"{mean} ({low} to {high})"


def _epochs(found: Paired) -> str:
    mean, low, high = found.signed(1, 1)
    return f"{mean} ({low} to {high})"


def _lam(records: Sequence[Record]) -> str:
    lams = [record.lam for record in records if record.lam]
    return ", ".join(f"{median(values):.3f}" for values in zip(*lams, strict=True))
