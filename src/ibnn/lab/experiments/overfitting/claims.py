"""What the networks trained on wrong labels say: every judgment is computed from them."""

from __future__ import annotations

from statistics import median

from ibnn.lab.experiments.overfitting.record import Reading, Record, Records
from ibnn.lab.results import Claim, Table
from ibnn.lab.stats import Paired, decide, paired, percent

STANDARD, IMPLICIT, CONTROL = "standard", "implicit", "mean-field"
ARMS = (STANDARD, IMPLICIT, CONTROL)


def best(record: Record) -> float:
    """Validation accuracy, the best epoch: the primary measure."""
    return record.best


def last(record: Record) -> float:
    """Validation accuracy after the last epoch: what overfitting leaves."""
    return record.last


def learnt(record: Record) -> float | None:
    """Fraction of the wrong labels learnt by heart."""
    return record.learnt


def decline(record: Record) -> float:
    """Epoch from which validation accuracy only falls."""
    return float(record.decline)


def overfits(records: Records) -> Paired | None:
    """What the standard network loses between its best epoch and its last, with wrong labels."""
    return paired(records.noisy_mean(STANDARD, best), records.noisy_mean(STANDARD, last))


def claims(records: Records) -> list[Claim]:
    """The standard network overfits at all; and what the neuron changes about it."""
    lost = overfits(records)
    gain, wider = (
        records.noisy(IMPLICIT, STANDARD, best),
        records.widening(IMPLICIT, STANDARD, best),
    )
    by_heart = records.noisy(IMPLICIT, STANDARD, learnt)
    later = records.noisy(IMPLICIT, STANDARD, decline)
    control = records.noisy(IMPLICIT, CONTROL, best)
    return [
        Claim(
            "(Needed for the rest) The standard network overfits the wrong labels.",
            f"Best epoch minus last epoch, mean over wrong labels above 0: {_points(lost)}.",
            decide(lost, "more"),
        ),
        Claim(
            "The implicit-bias network is more accurate with wrong labels.",
            f"Best accuracy, implicit minus standard, mean over wrong labels above 0: "
            f"{_points(gain)}; after the last epoch: "
            f"{_points(records.noisy(IMPLICIT, STANDARD, last))}.",
            decide(gain, "more"),
        ),
        Claim(
            "The gain is larger with wrong labels than without.",
            f"Gain with wrong labels minus gain without: {_points(wider)}; without: "
            f"{_points(records.clean(IMPLICIT, STANDARD, best))}.",
            decide(wider, "more"),
        ),
        Claim(
            "It learns fewer wrong labels by heart.",
            f"Fraction of the wrong labels that the last network gives back, implicit minus "
            f"standard: {_points(by_heart)}.",
            decide(by_heart, "less"),
        ),
        Claim(
            "Its accuracy declines later.",
            f"Epoch from which validation accuracy only declines, implicit minus standard: "
            f"{_epochs(later)}.",
            decide(later, "more"),
        ),
        Claim(
            "The gain with wrong labels needs the implicit solve.",
            f"Best accuracy, implicit minus {CONTROL}: {_points(control)}.",
            decide(control, "more"),
        ),
    ]


def headline(records: Records) -> str:
    """The gain, and whether there was anything to memorize."""
    gain, lost = records.noisy(IMPLICIT, STANDARD, best), overfits(records)
    if gain is None or lost is None:
        return "Not all runs are finished: no comparison yet."
    word = {"yes": "overfits", "no": "does not overfit"}.get(
        decide(lost, "more"), "may or may not overfit"
    )
    return (
        f"With wrong labels the implicit-bias network is {_points(gain)} ahead of the standard "
        f"one, which {word} here (best epoch minus last: {_points(lost)})."
    )


def table(records: Records) -> Table:
    """Medians of every arm at every fraction."""
    rows = []
    for wrong in records.fractions():
        for arm in ARMS:
            group = records.of(arm, wrong)
            if group:
                rows.append(
                    (
                        percent(wrong),
                        arm,
                        str(len(group)),
                        _median(records, arm, wrong, best),
                        _median(records, arm, wrong, last),
                        _median(records, arm, wrong, learnt),
                        f"{median(r.decline for r in group):g} of {group[0].epochs}",
                    )
                )
    return Table(
        "Medians",
        ("Wrong", "Arm", "Networks", "Best epoch", "Last epoch", "By heart", "Declines from epoch"),
        rows,
    )


def _median(records: Records, arm: str, wrong: float, read: Reading) -> str:
    values = records.values(arm, wrong, read).values()
    return percent(median(values)) if values else ""


def _points(found: Paired | None) -> str:
    return found.text() if found else "not known yet"


def _epochs(found: Paired | None) -> str:
    if found is None:
        return "not known yet"
    mean, low, high = found.signed(1.0, 1)
    return f"{mean} epochs (95 % interval {low} to {high}, {found.count} pairs)"
