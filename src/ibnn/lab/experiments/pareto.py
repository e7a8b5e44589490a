"""The experiment `pareto`: is there a network that is both more accurate and more robust?

Every arm is a point of clean against robust accuracy: those of the controls, whose runs it shares,
and attempts to join the two.
"""

from collections.abc import Sequence
from statistics import median
from typing import Any

from matplotlib.figure import Figure

from ibnn.lab.experiments.controls.arms import ARMS, DECAY, IMPLICIT, NEGATIVE, STANDARD, Arm
from ibnn.lab.experiments.controls.experiment import Controls
from ibnn.lab.experiments.controls.frame import ArmsExperiment
from ibnn.lab.experiments.controls.record import Records
from ibnn.lab.experiments.experiment import Run, Settings
from ibnn.lab.experiments.readings import NOT_YET, amounts
from ibnn.lab.plotting import style
from ibnn.lab.plotting.names import name_points
from ibnn.lab.results import Answer, Claim, Picture, Table
from ibnn.lab.stats import paired, percent
from ibnn.lab.stats.families import Judged, judge

Family = dict[str, tuple[Judged, Judged]]  # clean and robust accuracy of an arm, minus standard

_FIXED = {"neuron": "implicit", "learn_lam": False}
_JOINING = (
    Arm("first layer -0.2, then learnt", {"neuron": "implicit-first-fixed", "lam": -0.2}),
    Arm("both signs, per channel", {"neuron": "implicit-per-channel", "lam": 0.05}),
    Arm("lam = -0.2, slope learnt", {**_FIXED, "lam": -0.2, "learn_slope": True}),
    Arm("lam = -0.05", {**_FIXED, "lam": -0.05}),
    Arm("learnt above the threshold", {"neuron": "implicit", "bounded": False}),
    Arm("window of 7", {"neuron": "implicit", "coupling": "window", "window": 7}),
    Arm("window of 7, lam = -0.2", {**_FIXED, "lam": -0.2, "coupling": "window", "window": 7}),
)
KNOWN = (STANDARD, IMPLICIT, NEGATIVE, "shrink", DECAY, "mean-field", "instance-norm")
MAP = {name: ARMS[name] for name in KNOWN} | {arm.name: arm for arm in _JOINING}
CAPTION = (
    "Robust against clean accuracy, both of the network after its last epoch; robust accuracy is "
    "the mean over eps above 0. Small dots are networks, large ones the medians of their arms; the "
    "dashed line joins the arms that no other one beats in both."
)


class Pareto(ArmsExperiment):
    """The arms are attacked as those of `controls`."""

    name = "pareto"
    title = "Accuracy and robustness in one network?"
    measured_as = Controls.name

    def arms(self, settings: Settings) -> list[Arm]:
        """What is trained; a single layer has no first one to treat apart."""
        single = self.defaults(settings).layers == 1
        return [arm for arm in MAP.values() if not (single and arm is _JOINING[0])]

    def measure(self, run: Run) -> dict[str, Any]:
        return Controls().measure(run)

    def headline(self, settings: Settings, records: Records) -> str:
        return headline(records, self.family(settings, records))

    def pictures(self, settings: Settings, records: Records, runs: Sequence[Run]) -> list[Picture]:
        return [Picture("pareto", draw_map(records, amounts(runs)), CAPTION)]

    def claims(self, settings: Settings, records: Records) -> list[Claim]:
        return claims(self.family(settings, records))

    def tables(self, settings: Settings, records: Records) -> list[Table]:
        return [table(records, self.family(settings, records))]

    def family(self, settings: Settings, records: Records) -> Family:
        """Every arm of the plan minus standard, also those without a network yet."""
        planned = [arm.name for arm in self.arms(settings) if arm.name != STANDARD]
        return against_standard(records, planned)


def against_standard(records: Records, arms: Sequence[str]) -> Family:
    """Each arm minus standard, (clean, robust): one family of all these comparisons."""
    differences = {
        f"{arm}/{what}": paired(read(arm), read(STANDARD))
        for arm in arms
        for what, read in (("clean", records.last), ("robust", records.robust))
    }
    judged = judge(differences)
    return {arm: (judged[f"{arm}/clean"], judged[f"{arm}/robust"]) for arm in arms}


def claims(found: Family) -> list[Claim]:
    """The question, and both accuracies of every arm."""
    return [both_promises(found), *arm_claims(found)]


def both_promises(found: Family) -> Claim:
    """Yes when an arm is better in both; no when every arm is worse or equal in one of them."""
    both, ruled_out = (
        [arm for arm, pair in found.items() if _both(*pair) == reply] for reply in ("yes", "no")
    )
    answer: Answer = "not decided"
    if both:
        answer, text = "yes", f"Better in both: {'; '.join(both)}."
    elif found and len(ruled_out) == len(found):
        answer, text = "no", "Every arm is worse than the standard network, or equal, in one."
    else:
        left = [arm for arm in found if arm not in ruled_out]
        text = f"Not ruled out: {'; '.join(left)}." if ruled_out else "No arm is ruled out."
    return Claim(
        "One network can be more accurate and more robust than the standard one.", text, answer
    )


def arm_claims(found: Family) -> list[Claim]:
    """Both accuracies of every arm, in words."""
    return [
        Claim(
            f"{arm}: more accurate and more robust than standard.",
            f"Clean: {clean.text()}. Robust: {robust.text()}.",
            _both(clean, robust),
        )
        for arm, (clean, robust) in found.items()
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


def headline(records: Records, found: Family) -> str:
    """Who is on the front, and the answer."""
    places = points(records)
    if STANDARD not in places:
        return NOT_YET
    claim = both_promises(found)
    return (
        f"On the front of clean and robust accuracy (medians): {'; '.join(front(places))}. "
        f"One network better than the standard one in both? {claim.agrees.capitalize()}. "
        f"{claim.measured}"
    )


def table(records: Records, judged: Family) -> Table:
    """Every arm in numbers."""
    places = points(records)
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
        for arm in MAP
        if arm in places
    ]
    return Table.of("Every arm, medians after the last epoch", rows)


def draw_map(records: Records, note: str) -> Figure:
    """Every network a small dot, every arm a large one with its name; the front is a line."""
    figure, (axes,) = style.figure(width=7.6, height=5.6, title="Robust against clean accuracy")
    places = points(records)
    fixed = {STANDARD: style.STANDARD, IMPLICIT: style.IMPLICIT}
    colors = {
        arm: fixed.get(arm, style.OTHER if "=" in arm or "-0.2" in arm else style.INK)
        for arm in places
    }
    for arm, (clean, robust) in places.items():
        color, single = colors[arm], records.robust(arm)
        xs = [100 * records.last(arm)[seed] for seed in single]
        axes.scatter(xs, [100 * v for v in single.values()], s=9, color=color, alpha=0.35)
        axes.scatter([100 * clean], [100 * robust], s=46, color=color, zorder=3)
    line = [places[arm] for arm in front(places)]
    xs, ys = ([100 * place[k] for place in line] for k in (0, 1))
    axes.plot(xs, ys, "--", color=style.QUIET, linewidth=1.0, zorder=1)
    axes.set(
        xlabel="clean accuracy after the last epoch, %",
        ylabel="white-box PGD accuracy, mean over eps, %",
    )
    style.footnote(figure, note)
    name_points(axes, {arm: (100 * x, 100 * y) for arm, (x, y) in places.items()}, colors)
    return figure
