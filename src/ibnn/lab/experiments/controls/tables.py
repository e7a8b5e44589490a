"""The arms side by side, in numbers."""

from collections.abc import Sequence
from statistics import median

from ibnn.lab.experiments.controls import arms
from ibnn.lab.experiments.controls.arms import IMPLICIT, NEGATIVE, STANDARD
from ibnn.lab.experiments.controls.claims import family, kept, matched, saved
from ibnn.lab.experiments.controls.record import Records
from ibnn.lab.experiments.readings import medians
from ibnn.lab.results import Table
from ibnn.lab.stats import Paired, paired, percent, spread
from ibnn.lab.stats.families import Judged


def accuracy_table(records: Records) -> Table:
    """Best and last accuracy of every arm, against the standard and the implicit network."""
    judged = {}
    for others in ((STANDARD,), arms.CLOSE, arms.FURTHER):
        judged |= family(records.best, IMPLICIT, others)
    rows = []
    for arm in _ordered(records):
        over = paired(records.best(arm), records.best(STANDARD)) if arm != STANDARD else None
        fraction = kept(records, arm) if arm not in (STANDARD, IMPLICIT) else None
        rows.append(
            {
                "Arm": arm,
                "Networks": str(len(records.of(arm))),
                "Best epoch": spread(list(records.best(arm).values())),
                "Last epoch": percent(median(records.last(arm).values())),
                "Minus standard": _short(over),
                "Of the gain": "" if fraction is None else f"{100 * fraction:.0f} %",
                "Implicit minus arm, best epoch": _text(judged.get(arm)),
                "Implicit is": judged[arm].decision if arm in judged else "",
            }
        )
    title = "Accuracy of every arm: median (range); differences: mean (95 % interval)"
    return Table.of(title, rows)


def speed_table(records: Records) -> Table:
    """When each arm has the standard network's best, and epochs saved."""
    rows = []
    for arm in _ordered(records):
        _, _, reached = matched(records, arm) or (None, None, None)
        rows.append(
            {
                "Arm": arm,
                "Standard best in epoch": "never" if reached is None else f"{reached:.1f}",
                "Epochs saved": _short(saved(records, arm) if arm != STANDARD else None, 1, 1),
                "lam": medians(record.lam for record in records.of(arm) if record.lam),
                "Parameters": f"{records.of(arm)[0].parameters:,}",
            }
        )
    title = (
        "Epochs: when the arm's median reaches the standard median's best; epochs saved against "
        "the standard twin"
    )
    return Table.of(title, rows)


def robust_table(
    records: Records, eps: Sequence[float], against: Sequence[str] = arms.AGAINST_NEGATIVE
) -> Table:
    """White-box accuracy at every eps, and the mean that decides; lam = -0.2 minus `against`."""
    judged = family(records.robust, NEGATIVE, against)
    rows = []
    for arm in _ordered(records):
        curve = records.attacked(arm)
        if not curve:
            continue
        over = paired(records.robust(arm), records.robust(STANDARD)) if arm != STANDARD else None
        at_eps = zip(eps, curve, strict=True)
        rows.append(
            {
                "Arm": arm,
                **{f"eps {size:.3g}": percent(value) for size, value in at_eps},
                "Mean": percent(median(records.robust(arm).values())),
                "Minus standard": _short(over),
                **({f"({NEGATIVE}) minus arm": _text(judged.get(arm))} if against else {}),
            }
        )
    title = "White-box PGD accuracy, medians; differences of the mean over eps above 0"
    return Table.of(title, rows)


def _text(judged: Judged | None) -> str:
    return judged.text() if judged else ""


def _ordered(records: Records) -> list[str]:
    return [name for name in arms.ARMS if records.of(name)]


def _short(found: Paired | None, scale: float = 100, digits: int = 2) -> str:
    return found.short(scale, digits) if found else ""
