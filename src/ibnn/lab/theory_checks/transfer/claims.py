"""What the measurements say about transfer: claims, notes, table."""

from collections.abc import Mapping, Sequence
from typing import Any

from ibnn.lab.results import Answer, Claim, Table
from ibnn.lab.stats import percent

Margins = Mapping[str, Sequence[Mapping[str, Any]]]  # by task, a row per lam
ROUNDING = 1e-9  # of a margin in float64
KEPT = 0.01  # accuracy counts as kept if no more than this is lost


def claims(found: Margins, accuracies: Sequence[Mapping[str, Any]], standard: float) -> list[Claim]:
    """The bound of the paper, and the accuracy it is to explain."""
    return [_bound(found), _accuracy_kept(accuracies, standard)]


def separated(found: Margins) -> Margins:
    """The tasks whose classes the standard network separates: the bound is about these."""
    return {name: rows for name, rows in found.items() if rows[0]["margin_before"] > 0}


def _bound(found: Margins) -> Claim:
    rows = [row for rows in separated(found).values() for row in rows if row["lam"]]
    slack = [row["margin_old_head"] - row["bound_paper"] for row in rows]
    agrees: Answer = "not decided"
    measured = "No network separated its classes."
    if slack:
        agrees = "yes" if min(slack) >= -ROUNDING else "no"
        measured = (
            f"{len(slack)} conversions: the margin nearest to its bound lies {abs(min(slack)):.3g} "
            f"{'above' if agrees == 'yes' else 'below'} it."
        )
    return Claim("The old head keeps a margin of at least M - 2 |λ| √D.", measured, agrees)


def _accuracy_kept(accuracies: Sequence[Mapping[str, Any]], standard: float) -> Claim:
    low, high = kept_range(accuracies, standard)
    best = max(accuracies, key=lambda row: row["accuracy"])
    return Claim(
        "Weights of a trained standard network serve with implicit neurons, without retraining.",
        f"These weights: {percent(standard)} without implicit bias, within {percent(KEPT)} of it "
        f"from λ = {low:g} to {high:g}; best of these λ {percent(best['accuracy'])} at "
        f"{best['lam']:g}.",
        "yes" if low < 0 or high > 0 else "no",
    )


def kept_range(accuracies: Sequence[Mapping[str, Any]], standard: float) -> tuple[float, float]:
    """Between which lam, going out from 0, no more than KEPT of the accuracy is lost."""
    ends = []
    for sign in (-1, 1):
        end = 0.0
        for row in sorted(accuracies, key=lambda row: abs(row["lam"])):
            if row["lam"] * sign < 0:
                continue
            if row["accuracy"] < standard - KEPT:
                break
            end = row["lam"]
        ends.append(end)
    return ends[0], ends[1]


def notes(found: Margins, accuracies: Sequence[Mapping[str, Any]]) -> list[str]:
    """Each task by itself, and what recalibration does."""
    text = [_task(name, rows) for name, rows in found.items()]
    fresh = [row for row in accuracies if "accuracy_recalibrated" in row]
    if fresh:
        lowest = min(fresh, key=lambda row: row["lam"])
        text.append(
            f"Batch norms recalibrated: {percent(lowest['accuracy_recalibrated'])} instead of "
            f"{percent(lowest['accuracy'])} at λ = {lowest['lam']:g}."
        )
    return text


def _task(name: str, rows: Sequence[Mapping[str, Any]]) -> str:
    before = rows[0]["margin_before"]
    if before <= 0:
        return f"{name}: the network did not separate the classes; the bound is empty."
    loss = max(
        (before - row["margin_old_head"]) / (before - row["bound_paper"])
        for row in rows
        if row["lam"]
    )
    kept = [row["lam"] for row in rows if row["lam"] < 0 and row["margin_old_head"] > 0]
    bound = max(abs(row["lam"]) for row in rows if row["bound_paper"] > 0)
    promise = f"up to |λ| = {bound:g}" if bound else "at none but 0"
    return (
        f"{name}: M = {before:.3f} before. The old head lost at most {percent(max(loss, 0))} of "
        f"what the paper's bound allows; of the λ tried it still separates at "
        f"{min(kept, default=0.0):g}, and the bound promises that {promise}."
    )


COLUMNS = {
    "old head": "margin_old_head",
    "refitted head": "margin_refitted",
    "sharper bound": "bound_sharper",
    "paper's bound": "bound_paper",
}


def table(found: Margins) -> Table:
    rows = [
        {
            "task": task,
            "λ": f"{row['lam']:g}",
            **{name: f"{row[key]:.3f}" for name, key in COLUMNS.items()},
        }
        for task, rows in found.items()
        for row in rows
    ]
    return Table.of("Margins after conversion", rows)
