"""Accuracy and wrong labels learnt by heart, against the fraction of wrong labels."""

from matplotlib.figure import Figure

from ibnn.lab.experiments.overfitting.claims import ARMS, CONTROL, IMPLICIT, STANDARD
from ibnn.lab.experiments.overfitting.record import Records
from ibnn.lab.plotting import style
from ibnn.lab.plotting.bands import draw_band

_COLORS = {STANDARD: style.STANDARD, IMPLICIT: style.IMPLICIT, CONTROL: style.OTHER}


def draw(records: Records, note: str) -> Figure:
    """Best and last validation accuracy on the left, labels learnt by heart on the right."""
    title = "Accuracy with wrong labels, and how many are learnt by heart"
    figure, (left, right) = style.figure(2, width=9.6, height=4.4, title=title)
    for axes, name, line, more in (
        (left, "best", "-", ""),
        (left, "last", ":", ", last epoch"),
        (right, "learnt", "-", ""),
    ):
        for arm in ARMS:
            wrong = records.fractions()
            found = [records.values(arm, fraction, name).values() for fraction in wrong]
            draw_band(
                axes,
                [100 * fraction for fraction in wrong],
                [[100 * value for value in values] for values in found],
                color=_COLORS[arm],
                label=f"{arm}{more}",
                fraction=1.0 if line == "-" else 0.0,  # one band is enough
                marker="o",
                line=line,
            )
    left.set_ylabel("validation accuracy, %")
    right.set_ylabel("wrong labels given back, %")
    for axes in (left, right):
        axes.set_xlabel("wrong training labels, %")
        axes.legend(loc="best", fontsize=7)
    style.footnote(figure, note)
    return figure
