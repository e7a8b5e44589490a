"""What the networks trained on wrong labels say, and the figure: every judgment is computed."""

from dataclasses import replace
from statistics import median

from matplotlib.figure import Figure

from ibnn.lab.experiments.arms import IMPLICIT, STANDARD
from ibnn.lab.experiments.overfitting.record import Records
from ibnn.lab.experiments.readings import NOT_YET
from ibnn.lab.plotting import style
from ibnn.lab.plotting.bands import draw_band
from ibnn.lab.results import Claim, Table
from ibnn.lab.stats import Paired, claim, decide, difference, paired, percent
from ibnn.lab.stats.families import judge

CONTROL = "mean-field"
ARMS = (STANDARD, IMPLICIT, CONTROL)


def overfits(records: Records) -> Paired | None:
    """What the standard network loses between its best epoch and its last, with wrong labels."""
    return paired(records.noisy_mean(STANDARD, "best"), records.noisy_mean(STANDARD, "last"))


def claims(records: Records) -> list[Claim]:
    """The standard network overfits at all; and what the neuron changes about it."""
    lost = overfits(records)
    single = {  # each a comparison by itself: none is corrected for the others
        name: judge({name: found})[name]
        for name, found in {
            "gain": records.noisy(IMPLICIT, STANDARD, "best"),
            "wider": records.widening(IMPLICIT, STANDARD, "best"),
            "fewer": records.noisy(STANDARD, IMPLICIT, "learnt"),
            "control": records.noisy(IMPLICIT, CONTROL, "best"),
        }.items()
    }
    last, later = (records.noisy(IMPLICIT, STANDARD, name) for name in ("last", "decline"))
    clean = records.clean(IMPLICIT, STANDARD, "best")
    return [
        claim(
            "(Needed for the rest) The standard network overfits the wrong labels.",
            f"Best epoch minus last epoch, mean over wrong labels above 0: {difference(lost)}.",
            lost,
            ours=True,
        ),
        single["gain"].claim(
            "The implicit-bias network is more accurate with wrong labels.",
            f"After the last epoch, implicit minus standard, mean over wrong labels above 0: "
            f"{difference(last)}; best epoch, which decides",
        ),
        single["wider"].claim(
            "The gain is larger with wrong labels than without.",
            f"Gain without wrong labels: {difference(clean)}; with them minus without",
        ),
        single["fewer"].claim(
            "It memorizes fewer wrong labels.",
            "Fraction of the wrong labels that the last network predicts, standard minus implicit",
        ),
        claim(
            "Its accuracy declines later.",
            f"Epoch from which validation accuracy only declines, implicit minus standard: "
            f"{difference(later, 'epochs', 1, 1)}.",
            later,
        ),
        replace(
            single["control"].claim(
                "The gain with wrong labels needs the implicit solve.",
                f"Best accuracy, implicit minus {CONTROL}",
            ),
            ours=True,
        ),
    ]


def headline(records: Records) -> str:
    """The gain, and whether there was anything to memorize."""
    gain, lost = records.noisy(IMPLICIT, STANDARD, "best"), overfits(records)
    if gain is None or lost is None:
        return NOT_YET
    words = {"yes": "overfits", "no": "does not overfit", "not decided": "may or may not overfit"}
    return (
        f"With wrong labels the implicit-bias network is {gain.text()} ahead of the standard one, "
        f"which {words[decide(lost, 'more')]} here (best epoch minus last: {lost.text()})."
    )


def table(records: Records) -> Table:
    """Medians of every arm at every fraction."""
    rows = [
        {
            "Wrong": percent(wrong),
            "Arm": arm,
            "Networks": str(len(group)),
            "Best epoch": _median(records, arm, wrong, "best"),
            "Last epoch": _median(records, arm, wrong, "last"),
            "By heart": _median(records, arm, wrong, "learnt"),
            "Declines from epoch": f"{median(r.decline for r in group):g} of {group[0].epochs}",
        }
        for wrong in records.fractions()
        for arm in ARMS
        if (group := records.of(arm, wrong))
    ]
    return Table.of("Medians", rows)


def _median(records: Records, arm: str, wrong: float, name: str) -> str:
    values = records.values(arm, wrong, name).values()
    return percent(median(values)) if values else ""


_COLORS = {STANDARD: style.STANDARD, IMPLICIT: style.IMPLICIT, CONTROL: style.OTHER}


def draw(records: Records, note: str) -> Figure:
    """Best and last validation accuracy on the left, memorized labels on the right."""
    title = "Accuracy with wrong labels, and how many are memorized"
    figure, (left, right) = style.figure(2, width=9.6, height=4.4, title=title)
    for axes, name, line, more in (
        (left, "best", "-", ""),
        (left, "last", ":", ", last epoch"),
        (right, "learnt", "-", ""),
    ):
        for place, arm in enumerate(ARMS):
            wrong = records.fractions()
            found = [records.values(arm, fraction, name).values() for fraction in wrong]
            draw_band(
                axes,
                # side by side, as networks that memorize everything lie on one point
                [100 * fraction + 0.6 * (place - 1) for fraction in wrong],
                [[100 * value for value in values] for values in found],
                color=_COLORS[arm],
                label=f"{arm}{more}",
                fraction=1.0 if line == "-" else 0.0,  # one band is enough
                marker="o",
                line=line,
            )
    left.set_ylabel("validation accuracy, %")
    right.set_ylabel("wrong labels memorized, %")
    right.set_ylim(0, 105)
    for axes in (left, right):
        axes.set_xlim(-2, 100 * max(records.fractions(), default=0) + 2)
        axes.set_xlabel("wrong training labels, %")
        axes.legend(loc="best", fontsize=7)
    style.footnote(figure, note)
    return figure
