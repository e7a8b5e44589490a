"""One visual language: the standard neuron is blue, the implicit one green, in every figure."""

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.figure import Figure

# Okabe and Ito's blue, bluish green and vermilion: told apart with any color vision.
STANDARD = "#0072b2"
IMPLICIT = "#009e73"
OTHER = "#d55e00"
READING = "#b5478f"  # the paper's pink, dark enough for thin dashes and small text
INK = "#222222"
QUIET = "#767676"
GRID = "#e4e4e4"

# The two classes of points: pale, so that boundaries stand out on them.
CLASSES = ("#f2d16b", "#9cc3e6")

# From lime to dark teal: lightness falls evenly, so that neighbors differ also without hue.
_GREENS = ("#c5d93d", "#6fc04f", "#009e73", "#00707a", "#0b3c49")
_REDS = ("#f7b267", "#e8743b", "#c0392b", "#6b1414")

_SETTINGS: Any = {  # rc parameters
    "font.family": ["DejaVu Sans"],  # comes with matplotlib: the same figure everywhere
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelcolor": INK,
    "axes.edgecolor": QUIET,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "legend.handlelength": 2.8,
    "lines.linewidth": 1.8,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}


@contextmanager
def style() -> Iterator[None]:
    """Figures made inside the block speak this language; nothing global is left changed."""
    with matplotlib.rc_context(_SETTINGS):
        yield


def figure(
    columns: int = 1,
    rows: int = 1,
    *,
    width: float,
    height: float,
    title: str | None = None,
    **options: Any,
):
    """A figure (in inches) and its axes as a flat list, without pyplot's global state.

    `title` says what the figure shows, above all panels.
    """
    made = Figure(figsize=(width, height), layout="constrained")
    if title is not None:
        made.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
    axes = made.subplots(rows, columns, squeeze=False, **options)
    return made, list(axes.flat)


def footnote(figure: Figure, text: str) -> None:
    """Small quiet text below the panels, wrapped to the width of the figure."""
    width, height = figure.get_size_inches()
    lines = textwrap.wrap(text, int(width * 18))
    figure.text(
        0.99, 0.04 / height, "\n".join(lines), ha="right", va="bottom", fontsize=7, color=QUIET
    )
    below = (0.06 + 0.13 * len(lines)) / height
    figure.set_layout_engine("constrained", rect=(0, below, 1, 1 - below))


def greens(count: int) -> list[str]:
    """Shades of the implicit neuron's color, light to dark."""
    return _shades(_GREENS, count)


def reds(count: int) -> list[str]:
    """Shades of red for a second sweep, light to dark."""
    return _shades(_REDS, count)


def bare(axes: Axes) -> None:
    """A map rather than a diagram: equal scales, no ticks."""
    axes.set_aspect("equal")
    axes.grid(False)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)


def _shades(stops: Sequence[str], count: int) -> list[str]:
    scale = LinearSegmentedColormap.from_list("shades", list(stops))
    if count == 1:
        return [to_hex(scale(0.5))]
    return [to_hex(scale(i / (count - 1))) for i in range(count)]
