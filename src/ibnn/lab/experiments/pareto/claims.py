"""Whether one arm is better than the standard network in both accuracies, and the Pareto front."""

from collections.abc import Sequence
from statistics import median

from ibnn.lab.experiments.controls.arms import STANDARD
from ibnn.lab.experiments.controls.record import Records
from ibnn.lab.experiments.readings import NOT_YET
from ibnn.lab.results import Answer, Claim, Table
from ibnn.lab.stats import paired, percent
from ibnn.lab.stats.families import Judged, judge


def against_standard(records: Records) -> dict[str, tuple[Judged, Judged]]:
    """Each arm minus standard, (clean, robust): one family of all these comparisons."""
    arms = [arm for arm in records.arms() if arm != STANDARD]
    differences = {
        f"{arm}/{what}": paired(read(arm), read(STANDARD))
        for arm in arms
        for what, read in (("clean", records.last), ("robust", records.robust))
    }
    judged = judge(differences)
    return {arm: (judged[f"{arm}/clean"], judged[f"{arm}/robust"]) for arm in arms}


def both_promises(records: Records) -> Claim:
    """Yes when an arm is better in both; no when every arm is worse or equal in one of them."""
    found = against_standard(records)
    both, ruled_out = (
        [arm for arm, pair in found.items() if _both(*pair) == reply] for reply in ("yes", "no")
    )
    answer: Answer = "not decided"
    if both:
        answer, text = "yes", f"Better in both: {', '.join(both)}."
    elif found and len(ruled_out) == len(found):
        answer, text = "no", "Every arm is worse than the standard network, or equal, in one."
    else:
        left = [arm for arm in found if arm not in ruled_out]
        text = f"Not ruled out: {', '.join(left) or 'nothing measured yet'}."
    return Claim(
        "One network can be more accurate and more robust than the standard one.", text, answer
    )


def arm_claims(records: Records) -> list[Claim]:
    """Both accuracies of every arm, in words."""
    return [
        Claim(
            f"{arm}: more accurate and more robust than standard.",
            f"Clean: {clean.text()}. Robust: {robust.text()}.",
            _both(clean, robust),
        )
        for arm, (clean, robust) in against_standard(records).items()
    ]


def _both(*parts: Judged) -> Answer:
    answers = {judged.answer for judged in parts}
    if "no" in answers:
        return "no"
    return "yes" if answers == {"yes"} else "not decided"


def points(records: Records) -> dict[str, tuple[float, float]]:
    """(clean, robust) of every attacked arm, medians over seeds."""
    found = {}
    for arm in records.arms():
        robust = records.robust(arm)
        if robust:
            found[arm] = median(records.last(arm).values()), median(robust.values())
    return found


def front(places: dict[str, tuple[float, float]]) -> list[str]:
    """The arms no other one beats in both, by rising clean accuracy.

    >>> front({"a": (0.8, 0.2), "b": (0.7, 0.3), "c": (0.69, 0.25)})
    ['b', 'a']
    """
    kept = [
        arm
        for arm, (clean, robust) in places.items()
        if not any(
            other != (clean, robust) and other[0] >= clean and other[1] >= robust
            for other in places.values()
        )
    ]
    return sorted(kept, key=lambda arm: places[arm])


def headline(records: Records) -> str:
    """Who is on the front, and the answer."""
    places = points(records)
    if STANDARD not in places:
        return NOT_YET
    claim = both_promises(records)
    return (
        f"On the front of clean and robust accuracy (medians): {', '.join(front(places))}. "
        f"One network better than the standard one in both? {claim.agrees.capitalize()}. "
        f"{claim.measured}"
    )


def table(records: Records, order: Sequence[str]) -> Table:
    places, judged = points(records), against_standard(records)
    best = front(places)
    rows = [
        {
            "Arm": arm,
            "Networks": str(len(records.of(arm))),
            "Clean": percent(places[arm][0]),
            "Robust": percent(places[arm][1]),
            "Clean - standard": judged[arm][0].text() if arm in judged else "",
            "Robust - standard": judged[arm][1].text() if arm in judged else "",
            "On the front": "yes" if arm in best else "",
        }
        for arm in order
        if arm in places
    ]
    return Table.of("Every arm, medians after the last epoch", rows)
