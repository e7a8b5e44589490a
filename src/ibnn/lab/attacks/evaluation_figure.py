"""One figure of an evaluation: what each attack leaves, and accuracy against eps."""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ibnn.lab import files
from ibnn.lab.attacks.evaluation import Evaluation
from ibnn.lab.files import StrPath
from ibnn.lab.plotting import style


def save(evaluation: Evaluation, folder: StrPath) -> list[Path]:
    """Writes evaluation.json, .txt and .png into the folder, each whole or not at all."""
    where = Path(folder)
    files.write_json(where / "evaluation.json", evaluation.to_dict())
    files.write_text(where / "evaluation.txt", evaluation.text())
    with files.atomic(where / "evaluation.png") as file, style.style():
        draw(evaluation).savefig(file, format="png", dpi=150)
    return [where / f"evaluation.{kind}" for kind in ("json", "txt", "png")]


def draw(evaluation: Evaluation) -> Figure:
    """Left: robust accuracy by attack. Right: accuracy under PGD and certified, against eps."""
    height = 1.6 + 0.26 * (len(evaluation.rows) + 2)
    figure, (bars, curve) = style.figure(2, width=9.6, height=max(3.4, height))
    neuron = "implicit" if evaluation.implicit else "standard"
    _bars(bars, evaluation)
    _curve(curve, evaluation)
    bars.set_title(f"{evaluation.model}, {neuron}: {evaluation.images} images")
    curve.set_title(f"Against eps in {evaluation.norm}")
    return figure


def _color(evaluation: Evaluation) -> str:
    return style.IMPLICIT if evaluation.implicit else style.STANDARD


def _bars(axes: Axes, evaluation: Evaluation) -> None:
    color = _color(evaluation)
    names = ["none (clean)", *(row.name for row in evaluation.rows), "all in the ball"]
    fractions = [evaluation.clean_accuracy, *(row.robust_accuracy for row in evaluation.rows)]
    fractions.append(evaluation.robust_accuracy)
    # white box solid, black box pale: what a defender who hides gradients would like to show
    strength = [0.25, *(1.0 if row.uses_gradients else 0.5 for row in evaluation.rows), 1.0]
    for place, (fraction, alpha) in enumerate(zip(fractions, strength, strict=True)):
        axes.barh(place, 100 * fraction, color=color, alpha=alpha, height=0.7)
    for place, row in enumerate(evaluation.rows, start=1):
        axes.plot([100 * end for end in row.interval], [place, place], color=style.INK, lw=1.0)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.grid(False, axis="y")
    axes.set_xlim(0, 100)
    axes.set_xlabel(f"robust accuracy, % (eps {evaluation.eps:g}; solid: with gradients)")


def _curve(axes: Axes, evaluation: Evaluation) -> None:
    color = _color(evaluation)
    for check in evaluation.checks:
        if check.name == "accuracy falls with eps":
            points = [
                (float(eps), 100 * fraction) for eps, fraction in check.numbers["accuracy"].items()
            ]
            axes.plot(*zip(*points, strict=True), color=color, marker="o", ms=4, label="PGD")
    if evaluation.certified.accuracy:
        points = [(eps, 100 * fraction) for eps, fraction in evaluation.certified.accuracy]
        axes.plot(*zip(*points, strict=True), color=style.QUIET, ls="--", label="certified")
    at = (evaluation.eps, 100 * evaluation.robust_accuracy)
    axes.plot(*at, color=style.OTHER, marker="D", ls="none", label="all attacks in the ball")
    axes.set_ylim(0, 100)
    axes.set_xlim(left=0)
    axes.set_xlabel("eps")
    axes.set_ylabel("accuracy, %")
    axes.legend(loc="upper right")
