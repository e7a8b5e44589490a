"""The drawings of the boundary experiment."""

from collections.abc import Mapping, Sequence

from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from ibnn.lab import data
from ibnn.lab.experiments.experiment import Run
from ibnn.lab.experiments.plane import Condition
from ibnn.lab.plotting import style
from ibnn.lab.plotting.intervals import draw_dots
from ibnn.lab.plotting.plane import Line, draw_panels
from ibnn.lab.stats import percent
from ibnn.lab.stats.region import unpack

Groups = Mapping[Condition, Sequence[Run]]


def draw_boundaries(dataset: str, standard: Sequence[Run], left: Groups, right: Groups) -> Figure:
    """Both panels: boundaries over the points, validation accuracies in the legend."""
    points = data.load(dataset)
    best = {condition.lam for condition in right}
    chosen_lam = f"λ = {best.pop():g}" if len(best) == 1 else "the best λ"
    slopes = " or ".join(sorted({f"{condition.slope:g}" for condition in left}))
    return draw_panels(
        "Decision boundaries of the median networks",
        (points.x_test, points.y_test),
        _line(standard, "standard") if standard else None,
        {
            f"λ at slope p = {slopes}": [_line(runs, c.short) for c, runs in left.items()],
            f"slope p at {chosen_lam}": [_line(runs, c.label) for c, runs in right.items()],
        },
    )


def _line(runs: Sequence[Run], label: str) -> Line:
    """The network of the median seed; its accuracy goes to the legend."""
    drawn = median_run(runs)
    return drawn.network(), f"{label}: {percent(drawn.result.accuracy)}"


def median_run(runs: Sequence[Run]) -> Run:
    """The run with the median accuracy; the lower one of the two in the middle."""
    ordered = sorted(runs, key=lambda run: (run.result.accuracy, run.config.seed))
    return ordered[(len(ordered) - 1) // 2]


def draw_every_network(groups: Groups) -> Figure:
    """A small map of the plane per network: settings are rows, seeds columns."""
    columns = max(8, *(len(runs) for runs in groups.values()))  # few seeds: small maps all the same
    height = 0.2 + 1.02 * len(groups)
    figure, (axes,) = style.figure(
        width=9.6, height=0.3 + height * 9.6 / (columns + 1.6), title="Every network"
    )
    style.bare(axes)
    colors = ListedColormap(style.CLASSES)
    for row, (condition, runs) in enumerate(groups.items()):
        top = 1.15 * row
        axes.text(-0.1, top + 0.45, condition.label.replace(", ", "\n"), ha="right", va="center")
        for column, run in enumerate(sorted(runs, key=lambda run: run.result.accuracy)):
            inside = unpack(run.measured["inside"])
            where = (column, column + 0.92, top + 0.92, top)
            axes.imshow(inside, cmap=colors, vmin=0, vmax=1, extent=where, origin="lower")
            text = f"{100 * run.result.accuracy:.0f}"
            axes.text(column + 0.46, top + 1.03, text, ha="center", va="center", fontsize=7)
    axes.set(xlim=(-1.6, columns), ylim=(len(groups) * 1.15, -0.2))
    return figure


def draw_seeds(standard: Sequence[Run], left: Groups, right: Groups) -> Figure:
    """Every seed as a dot, the median as a bar."""
    shades = dict(zip(right, style.reds(len(right)), strict=True))
    shades |= dict(zip(left, style.greens(len(left))[::-1], strict=True))
    groups = [("standard", standard, style.STANDARD)] if standard else []
    groups += [(c.label, runs, shades[c]) for c, runs in {**left, **right}.items()]
    dots = [(name, [run.result.accuracy for run in runs], color) for name, runs, color in groups]
    title = "Validation accuracy of every network"
    return draw_dots(dots, title, "validation accuracy after the last epoch, %")
