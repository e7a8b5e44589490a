"""What the records of each architecture say: every judgment is computed from them."""

from collections.abc import Mapping
from statistics import fmean, median

from ibnn.lab.experiments.architectures.amounts import CONTROLS, IMPLICIT, STANDARD, WIDER
from ibnn.lab.experiments.architectures.record import Record, Records
from ibnn.lab.experiments.controls.claims import solve_needed
from ibnn.lab.models import network_kind
from ibnn.lab.results import Answer, Claim, Table
from ibnn.lab.stats import Paired, claim, paired
from ibnn.lab.stats.families import Judged, judge

NAMES = {"resnet20": "ResNet-20", "vit": "ViT", "gpt": "GPT"}
MOST = 2.0  # times the time of a standard step: what a step may cost


def best(record: Record) -> float:
    """The best score over the epochs: the primary measure."""
    return record.best


def family(records: Records, others: tuple[str, ...]) -> dict[str, Judged]:
    """Implicit minus each of the others, as one family."""
    found = {other: records.difference(IMPLICIT, other, best) for other in others}
    return judge(found, records.measure.equivalent)


def claims(found: Mapping[str, Records]) -> list[Claim]:
    """The questions of docs/verdict-plan.md, architecture by architecture."""
    return [line for records in found.values() for line in _claims(records)]


def _claims(records: Records) -> list[Claim]:
    name = NAMES[records.network]
    gain = family(records, (STANDARD,))[STANDARD]
    made = [
        Claim(
            f"{name}: the learnt implicit bias is better than the standard neuron.",
            f"Implicit minus standard, best epoch: {_text(records, gain)}.",
            gain.answer,
        ),
        needs_solve(records),
    ]
    for other, judged in family(records, CONTROLS).items():
        question = f"{name}: it is better than {other}."
        measured = f"Implicit minus {other}: {_text(records, judged)}."
        made.append(Claim(question, measured, judged.answer))
    if network_kind(records.network).text:
        judged = family(records, (WIDER,))[WIDER]
        question = f"{name}: it is better than a wider standard network of equal training time."
        times = paired(records.costs(IMPLICIT), records.costs(WIDER))
        took = (
            "" if times is None else f" A step costs {times.first:.2f} against {times.second:.2f}"
        )
        measured = f"Implicit minus {WIDER}: {_text(records, judged)}."
        measured += f"{took} times that of the standard one." if took else ""
        made.append(Claim(question, measured, judged.answer))
    return [*made, faster(records), sign(records), dear(records)]


def needs_solve(records: Records) -> Claim:
    """ "The gain needs the implicit solve", by the rule of the plan and of `controls`."""
    question = f"{NAMES[records.network]}: the gain needs the implicit solve."
    gain = family(records, (STANDARD,))[STANDARD]
    if gain.decision != "better":
        return Claim(question, "There is no gain to explain.", "not decided")
    found = {other: judged.decision for other, judged in family(records, CONTROLS).items()}
    reply, why = solve_needed(found)
    return Claim(question, why, reply)


def faster(records: Records) -> Claim:
    """Epochs saved against the standard twin."""
    saved = records.saved(IMPLICIT, STANDARD, lambda record: record.curve)
    reached = records.reached(IMPLICIT, STANDARD)
    when = "never" if reached is None else f"in epoch {reached:.1f}"
    text = saved.text("epochs", 1.0, 2) if saved else "not known yet"
    measured = (
        f"Epochs saved to the best that both reach: {text}. The implicit median reaches the best "
        f"of the standard one {when}."
    )
    question = f"{NAMES[records.network]}: it needs fewer epochs."
    return claim(question, measured, saved)


def sign(records: Records) -> Claim:
    """Whether a learnt lam is positive, the mean over layers."""
    lam = records.by_seed(IMPLICIT, lambda record: fmean(record.lam))
    found = paired(lam, dict.fromkeys(lam, 0.0))
    layers = records.lam(IMPLICIT)
    text = found.text("", 1.0, 4).replace("  ", " ") if found else "not known yet"
    where = f" Of {len(layers)} layers {sum(value > 0 for value in layers)} end above 0"
    ends = f"{where}, from {min(layers):.3f} to {max(layers):.3f} (medians)." if layers else ""
    question = f"{NAMES[records.network]}: a learnt lam goes to the positive side."
    return claim(question, f"Mean over layers: {text}.{ends}", found)


def dear(records: Records) -> Claim:
    """Whether a step takes less than twice the time."""
    costs = records.costs(IMPLICIT)
    found = paired(costs, dict.fromkeys(costs, MOST))
    question = f"{NAMES[records.network]}: a training step takes less than twice the time."
    if found is None:
        return Claim(question, "Not known yet.", "not decided")
    low, high = found.low + MOST, found.high + MOST
    measured = (
        f"{found.first:.2f} times the standard step (95 % interval {low:.2f} to {high:.2f}, "
        f"{found.count} networks)."
    )
    return claim(question, measured, found, "less")


def headline(found: Mapping[str, Records]) -> str:
    """Each architecture in a sentence."""
    return " ".join(_sentence(records) for records in found.values())


_ANSWERS: dict[Answer, str] = {"yes": "better", "no": "not better", "not decided": "not decided"}


def _sentence(records: Records) -> str:
    gain = family(records, (STANDARD,))[STANDARD]
    if gain.difference is None:
        return f"{NAMES[records.network]}: not known yet."
    text = (
        f"{NAMES[records.network]}: {_ANSWERS[gain.answer]}, implicit minus standard "
        f"{_text(records, gain)}"
    )
    if not network_kind(records.network).text:
        return f"{text}."
    wider = family(records, (WIDER,))[WIDER]
    return f"{text}; minus a wider standard network of equal training time {_text(records, wider)}."


def table(records: Records) -> Table:
    """The arms of one architecture, in numbers."""
    measure, rows = records.measure, []
    for arm in records.arms():
        group = records.of(arm)
        over = records.difference(arm, STANDARD, best) if arm != STANDARD else None
        reached, costs = records.reached(arm, STANDARD), records.costs(arm)
        rows.append(
            {
                "Arm": arm,
                "Networks": str(len(group)),
                "Best epoch, median": measure.value(median(r.best for r in group)),
                "Last epoch": measure.value(median(r.curve[-1] for r in group)),
                f"Minus standard ({measure.unit})": _short(records, over),
                "Standard best in epoch": "never" if reached is None else f"{reached:.1f}",
                "Step, times standard": f"{median(costs.values()):.2f}" if costs else "",
                "Training, s": f"{median(r.trained for r in group):.0f}",
                "Parameters": f"{group[0].parameters:,}",
            }
        )
    return Table.of(f"{NAMES[records.network]}: every arm; differences: mean (95 % interval)", rows)


def lam_table(records: Records) -> Table:
    """Where lam went in every layer, the median over seeds."""
    having = {arm: records.lam(arm) for arm in records.arms() if records.lam(arm)}
    layers = max((len(values) for values in having.values()), default=0)
    rows = [
        {"Layer": str(layer + 1), **{arm: f"{values[layer]:.4f}" for arm, values in having.items()}}
        for layer in range(layers)
    ]
    return Table.of(f"{NAMES[records.network]}: lam of every layer, medians", rows)


def _text(records: Records, judged: Judged) -> str:
    measure = records.measure
    text = judged.text(measure.unit, measure.scale, measure.digits)
    found = judged.difference
    decided = judged.decision in ("better", "worse")
    small = found is not None and max(-found.low, found.high) < measure.equivalent
    bound = f"{measure.scale * measure.equivalent:g}"
    return f"{text[:-1]}; small: within {bound})" if decided and small else text


def _short(records: Records, found: Paired | None) -> str:
    return found.short(records.measure.scale, records.measure.digits) if found else ""
