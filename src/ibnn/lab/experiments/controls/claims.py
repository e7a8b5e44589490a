"""What the records say about each question of the plan: every judgment is computed from them."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from ibnn.lab.experiments.controls import arms
from ibnn.lab.experiments.controls.arms import IMPLICIT, NEGATIVE, STANDARD
from ibnn.lab.experiments.controls.record import Record, Records
from ibnn.lab.experiments.readings import NOT_YET, medians, never_learnt
from ibnn.lab.results import Answer, Claim
from ibnn.lab.stats import Paired, median_curve, paired, reaches
from ibnn.lab.stats.families import Judged, judge

Reading = Callable[[str], Mapping[int, float]]


def family(read: Reading, first: str, others: Sequence[str]) -> dict[str, Judged]:
    """`first` minus each of the others, as one family."""
    return judge({other: paired(read(first), read(other)) for other in others})


def gain(records: Records) -> Judged:
    """Family A: implicit minus standard, in best accuracy."""
    return family(records.best, IMPLICIT, [STANDARD])[STANDARD]


def saved(records: Records, arm: str, other: str = STANDARD) -> Paired | None:
    """How many epochs earlier than its twin an arm has the highest accuracy both reach."""
    return records.saved(arm, other, Record.smooth)


def matched(records: Records, arm: str) -> tuple[float, float, float | None] | None:
    """The best of the standard median curve, its epoch, and when the arm's median reaches it."""
    curves = {name: {r.seed: r.smooth() for r in records.of(name)} for name in (STANDARD, arm)}
    if not all(curves.values()):
        return None
    standard, ours = median_curve(curves[STANDARD]), median_curve(curves[arm])
    level, epochs = max(standard), list(range(1, len(ours) + 1))
    return level, epochs[standard.index(level)], reaches(epochs, ours, level)


def kept(records: Records, arm: str) -> float | None:
    """The fraction of the implicit network's gain over the standard one that an arm has too, in the
    seeds of both; None where there is no gain that was decided."""
    ours, theirs = records.best(IMPLICIT), records.best(arm)
    level = records.best(STANDARD)
    both = {seed: level[seed] for seed in level if seed in ours and seed in theirs}
    gained, too = paired(ours, both), paired(theirs, both)
    if gain(records).decision != "better" or gained is None or too is None or not gained.mean:
        return None
    return too.mean / gained.mean


def accuracy_claims(records: Records) -> list[Claim]:
    """Families A, B and C."""
    difference = gain(records)
    claims = [
        difference.claim(
            "The learnt implicit bias is more accurate than the standard neuron.",
            "Best accuracy, implicit minus standard",
        ),
        needs_solve(records),
    ]
    for others in (arms.CLOSE, arms.FURTHER):
        found = family(records.best, IMPLICIT, others)
        # an experiment with few arms has no further ones
        known = [name for name in others if others is arms.CLOSE or records.of(name)]
        claims += [_one(name, found[name]) for name in known]
    return claims


def _one(name: str, judged: Judged) -> Claim:
    same = " The interval is within 0.3 points." if judged.decision == "equivalent" else ""
    return Claim(
        f"It is more accurate than {name}.",
        f"Best accuracy, implicit minus {name}: {judged.text()}.{same}",
        judged.answer,
    )


def needs_solve(records: Records) -> Claim:
    """ "The gain needs the implicit solve", by the rule of the plan."""
    question = "The gain needs the implicit solve: no explicit map does as well."
    if gain(records).decision != "better":
        return Claim(question, "There is no gain to explain yet.", "not decided")
    found = family(records.best, IMPLICIT, arms.CLOSE)
    trained = {name: judged.difference is not None for name, judged in found.items()}
    if not any(trained.values()):
        return Claim(question, "No close control was trained.", "not decided")
    outcomes = {
        name if trained[name] else f"{name} (not trained)": judged.decision
        for name, judged in found.items()
    }
    reply, why = solve_needed(outcomes)
    fractions = [(name, kept(records, name)) for name in found]
    parts = [f"{name} {100 * part:.0f} %" for name, part in fractions if part is not None]
    description = f" Of the gain over standard they keep: {', '.join(parts)}." if parts else ""
    return Claim(question, why + description, reply)


def solve_needed(outcomes: Mapping[str, str]) -> tuple[Answer, str]:
    """The rule itself, from how implicit compares with each close control.

    >>> solve_needed({"gain": "better", "lite": "equivalent"})
    ('no', 'lite is equivalent to implicit.')
    """
    worse = [name for name, outcome in outcomes.items() if outcome == "worse"]
    equal = [name for name, outcome in outcomes.items() if outcome == "equivalent"]
    reasons = [_be(worse, "better than implicit")] if worse else []
    reasons += [_be(equal, "equivalent to implicit")] if equal else []
    if reasons:
        return "no", "; ".join(reasons) + "."
    open_ones = [name for name, outcome in outcomes.items() if outcome != "better"]
    if open_ones:
        return "not decided", f"Difference from implicit not decided: {', '.join(open_ones)}."
    return "yes", "Implicit is better than every close control."


def _be(names: Sequence[str], what: str) -> str:
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} {what}"


def speed_claims(records: Records) -> list[Claim]:
    """Epochs saved against standard, and against the close controls."""
    # equivalence is defined for accuracies alone
    against = judge({STANDARD: saved(records, IMPLICIT)}, equivalent=0)[STANDARD]
    close = judge({name: saved(records, IMPLICIT, name) for name in arms.CLOSE}, equivalent=0)
    reading = matched(records, IMPLICIT)
    when = ""
    if reading is not None:
        level, epoch, ours = reading
        reached = "never" if ours is None else f"in epoch {ours:.1f}"
        when = (
            f" The standard median has its best, {100 * level:.1f} %, in epoch {epoch:.0f}; the "
            f"implicit one reaches it {reached}."
        )
    return [
        Claim(
            "It reaches the accuracy of the standard network in fewer epochs.",
            f"Epochs saved to the highest accuracy both reach: "
            f"{against.text('epochs', 1.0, 1)}.{when}",
            against.answer,
        ),
        *(
            judged.claim(
                f"It reaches the accuracy of {name} in fewer epochs.",
                "Epochs saved",
                unit="epochs",
                scale=1.0,
                digits=1,
            )
            for name, judged in close.items()
        ),
    ]


def robust_claims(records: Records) -> list[Claim]:
    """White-box accuracy: learnt lam against standard, and family E."""
    learnt = family(records.robust, IMPLICIT, [STANDARD])[STANDARD]
    found = family(records.robust, NEGATIVE, arms.AGAINST_NEGATIVE)
    lost = paired(records.lost(NEGATIVE), records.lost(STANDARD))
    drop = "" if lost is None else f" What the attack takes: {lost.text()}."
    reply, why = contraction_needed({name: judged.decision for name, judged in found.items()})
    return [
        learnt.claim(
            "The learnt implicit bias is more robust than the standard neuron.",
            "White-box PGD accuracy, mean over eps, implicit minus standard",
        ),
        Claim(
            "lam = -0.2 makes the network more robust.",
            f"White-box PGD accuracy, mean over eps, minus standard: {found[STANDARD].text()}."
            + drop,
            found[STANDARD].answer,
        ),
        Claim(
            "The robustness of lam < 0 needs the implicit solve.",
            why
            + "".join(
                f" Minus {name}: {judged.text()}."
                for name, judged in found.items()
                if name != STANDARD
            ),
            reply,
        ),
    ]


def contraction_needed(outcomes: Mapping[str, str]) -> tuple[Answer, str]:
    """The rule for lam < 0, from how it compares with standard and each explicit control.

    >>> contraction_needed({"standard": "better", "shrink": "worse", "weight decay": "better"})
    ('no', 'shrink does as well or better.')
    """
    if outcomes[STANDARD] != "better":
        return "not decided", "There is no robustness to explain yet."
    others = {name: outcome for name, outcome in outcomes.items() if name != STANDARD}
    enough = [name for name, outcome in others.items() if outcome in ("worse", "equivalent")]
    if enough:
        verb = "does" if len(enough) == 1 else "do"
        return "no", f"{' and '.join(enough)} {verb} as well or better."
    open_ones = [name for name, outcome in others.items() if outcome != "better"]
    if open_ones:
        return "not decided", f"Difference from lam = -0.2 not decided: {', '.join(open_ones)}."
    return "yes", "lam = -0.2 is more robust than each explicit control."


def remains(published: Records, changed: Records, change: str) -> Claim:
    """Whether the gain of the published settings remains with others, by the rule of the plan."""
    before, after = gain(published), gain(changed)
    question = f"The gain over the standard network remains {change}."
    numbers = f"Published settings: {before.text()}; {change}: {after.text()}."
    if before.decision != "better":
        return Claim(question, f"{numbers} There is no gain to keep yet.", "not decided")
    word, reply = _REMAINS[after.decision]
    return Claim(question, f"{numbers} {word}", reply)


_REMAINS: dict[str, tuple[str, Answer]] = {
    "better": ("It remains.", "yes"),
    "worse": ("It is reversed.", "no"),
    "equivalent": ("It is gone: the networks are equivalent.", "no"),
    "not decided": ("It is not shown there.", "not decided"),
}


def headline(records: Records) -> str:
    """The answer in two sentences."""
    difference, claim = gain(records), needs_solve(records)
    if difference.difference is None:
        return NOT_YET
    found = medians(record.lam for record in records.of(IMPLICIT)) or "none"
    return (
        f"Implicit minus standard: {difference.text()}, lam learnt to {found}. "
        f"Does the gain need the implicit solve? {claim.agrees.capitalize()}: {claim.measured}"
    )


def notes(records: Records) -> list[str]:
    """What the best epoch flatters, which arms have more parameters, and who never learnt."""
    if not records.arms():  # there are runs that tuned something, and no network to compare yet
        return []
    lost = fmean(record.best - record.last for record in records)
    sizes = {record.arm: record.parameters for record in records}
    usual = sizes.get(STANDARD, 0)
    larger = [f"{arm} ({size:,})" for arm, size in sizes.items() if size > 1.01 * usual]
    return [
        f"The best epoch is above the last one by {100 * lost:.2f} points, mean over all networks.",
        f"More parameters than the standard network ({usual:,}), by more than a hundredth: "
        f"{', '.join(larger) or 'no arm'}.",
        *never_learnt((f"{record.arm} seed {record.seed}", record.curve) for record in records),
    ]
