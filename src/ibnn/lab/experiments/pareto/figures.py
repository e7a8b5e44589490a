"""The map: robust against clean accuracy."""

from statistics import median

from matplotlib.figure import Figure

from ibnn.lab.experiments.controls.arms import IMPLICIT, STANDARD
from ibnn.lab.experiments.controls.record import Records
from ibnn.lab.experiments.pareto.claims import front, points
from ibnn.lab.plotting import style


def draw_map(records: Records, note: str) -> Figure:
    """Every network a small dot, every arm a large one with its name; the front is a line."""
    figure, (axes,) = style.figure(width=7.6, height=5.6, title="Robust against clean accuracy")
    places = points(records)
    fixed = {STANDARD: style.STANDARD, IMPLICIT: style.IMPLICIT}
    for number, (arm, (clean, robust)) in enumerate(places.items()):
        color = fixed.get(arm, style.OTHER if "=" in arm or "-0.2" in arm else style.INK)
        single = records.robust(arm)
        xs = [100 * records.last(arm)[seed] for seed in single]
        axes.scatter(xs, [100 * v for v in single.values()], s=9, color=color, alpha=0.35)
        axes.scatter([100 * clean], [100 * robust], s=46, color=color, zorder=3)
        away = (6, 5) if number % 2 else (6, -9)  # neighbors above and below their points
        place = (100 * clean, 100 * robust)
        axes.annotate(arm, place, xytext=away, textcoords="offset points", fontsize=7, color=color)
    line = [places[arm] for arm in front(places)]
    xs, ys = ([100 * place[k] for place in line] for k in (0, 1))
    axes.plot(xs, ys, "--", color=style.QUIET, linewidth=1.0, zorder=1)
    if places:
        middle = median(clean for clean, _ in places.values())
        right = max(clean for clean, _ in places.values())
        axes.set_xlim(right=100 * right + 100 * max(0.01, 0.6 * (right - middle)))
    axes.set(
        xlabel="clean accuracy after the last epoch, %",
        ylabel="white-box PGD accuracy, mean over eps, %",
    )
    style.footnote(figure, note)
    return figure
