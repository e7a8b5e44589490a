"""The verdict at a glance: an interval for every claim, and for implicit minus every close control.

A picture carries the numbers it was drawn from as its `Description`: that is how one that is out of
date can be told from its file.
"""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ibnn.lab import files
from ibnn.lab.experiments.controls import arms
from ibnn.lab.experiments.controls import claims as control_claims
from ibnn.lab.experiments.controls.record import Records
from ibnn.lab.plotting import style
from ibnn.lab.report.output import image_bytes
from ibnn.lab.report.verdict.effects import EFFECTS, NOT_RUN, STANDARD, Effect, Measured
from ibnn.lab.report.verdict.source import DATASETS, NAMES, Source, Sources
from ibnn.lab.stats.families import EQUIVALENT

_COLORS = {"yes": style.IMPLICIT, "no": style.OTHER, "not decided": style.QUIET}
_LABEL_WIDTH = 36  # letters
_SETTINGS = {
    "controls": "published settings",
    "controls-torch": "PyTorch's initialization",
    "controls-tuned": "tuned learning rates",
}


@dataclass(frozen=True)
class Interval:
    """A measured difference in the unit of its axis, and what it decides."""

    answer: str
    mean: float
    low: float
    high: float
    is_full: bool

    @classmethod
    def of(cls, found: Measured | None, scale: float = 100.0) -> "Interval | None":
        difference = found.judged.difference if found else None
        if found is None or difference is None:
            return None
        mean, low, high = (scale * v for v in (difference.mean, difference.low, difference.high))
        return cls(found.judged.answer, mean, low, high, found.is_full)

    def __str__(self) -> str:
        reduced = "" if self.is_full else ", reduced"
        return f"{self.answer} {self.mean:+.2f} ({self.low:+.2f} to {self.high:+.2f}){reduced}"


@dataclass(frozen=True)
class Panel:
    """A row for each name; None where nothing was run."""

    title: str
    rows: Mapping[str, Interval | None]

    def __str__(self) -> str:
        title = self.title.replace("\n", ", ")
        return "\n".join(f"{title}, {name}: {row or NOT_RUN}" for name, row in self.rows.items())

    def draw(self, axes: Axes) -> None:
        axes.axvline(0.0, color=style.INK, linewidth=0.8)
        for place, row in enumerate(self.rows.values()):
            if row is None:
                axes.text(0.0, place, f"  {NOT_RUN}", fontsize=7, color=style.QUIET, va="center")
                continue
            color = _COLORS[row.answer]
            inside = color if row.is_full else "white"
            ends = [row.low, row.high]
            axes.plot(ends, [place, place], color=color, linewidth=1.8, solid_capstyle="butt")
            axes.plot(row.mean, place, "o", color=color, markerfacecolor=inside, markersize=5)
        names = [textwrap.fill(name, _LABEL_WIDTH) for name in self.rows]
        axes.set_yticks(range(len(self.rows)), names)
        axes.set_ylim(len(self.rows) - 0.5, -0.5)
        axes.set_title(self.title)


def claims_panels(sources: Sources) -> list[Panel]:
    """A panel for each dataset with the claims in points, and one below it with the others."""
    in_points = [effect for effect in EFFECTS if effect.unit == "points"]
    others = [effect for effect in EFFECTS if effect.unit != "points"]
    return [
        Panel(
            NAMES[dataset] if effects is in_points else "",
            {_name(e): Interval.of(e.measured(sources, dataset), e.scale) for e in effects},
        )
        for effects in (in_points, others)
        for dataset in DATASETS
    ]


def _name(effect: Effect) -> str:
    return effect.claim if effect.unit == "points" else f"{effect.claim} ({effect.unit})"


def draw_claims(panels: Sequence[Panel]) -> Figure:
    upper, lower = len(panels[0].rows), len(panels[-1].rows)
    figure, axes = style.figure(
        len(DATASETS),
        2,
        width=9.4,
        height=2.2 + 0.34 * (upper + lower),
        title="Claim by claim: difference from the standard (or unconverted) network",
        sharex="row",
        sharey="row",
        gridspec_kw={"height_ratios": [upper, lower + 0.6]},
    )
    for place, panel in zip(axes, panels, strict=True):
        panel.draw(place)
    for place in axes[: len(DATASETS)]:
        place.set_xlabel("percentage points")
    for place in axes[len(DATASETS) :]:
        place.set_xlabel("saved")
    answers = {name: name for name in _COLORS}
    _explain(figure, answers, "95 % intervals, each comparison by itself.")
    return figure


def controls_panels(sources: Sources) -> list[Panel]:
    """Wherever close controls were trained: implicit minus standard, and minus each of them."""
    found = (
        (setting, next(filter(_has_controls, sources.each(experiment, dataset)), None))
        for experiment, setting in _SETTINGS.items()
        for dataset in DATASETS
    )
    return [
        Panel(f"{NAMES[source.dataset]}\n{setting}", _against(source))
        for setting, source in found
        if source is not None
    ]


def _has_controls(source: Source) -> bool:
    return any(row["arm"] in arms.CLOSE for row in source.rows)


def _against(source: Source) -> dict[str, Interval | None]:
    records = Records.from_rows(source.rows)
    close = control_claims.family(records.best, arms.IMPLICIT, arms.CLOSE)
    judged = {STANDARD: control_claims.gain(records), **close}
    return {
        f"minus {name}": Interval.of(Measured(found, source.entry.is_full))
        for name, found in judged.items()
    }


def draw_controls(panels: Sequence[Panel]) -> Figure:
    figure, axes = style.figure(
        len(panels),
        width=1.4 + 2.1 * len(panels),
        height=3.1,
        title="Best accuracy of the implicit-bias network, minus that of simpler ones",
        sharey=True,
    )
    for place, panel in zip(axes, panels, strict=True):
        margin = 100 * EQUIVALENT
        place.axvspan(-margin, margin, color=style.QUIET, alpha=0.15, linewidth=0)
        panel.draw(place)
        place.set_xlabel("percentage points")
    answers = {"yes": "better", "no": "worse or equivalent", "not decided": "not decided"}
    _explain(
        figure,
        answers,
        "95 % intervals; decided after Holm's correction. Gray band: 0.3 points either way.",
    )
    return figure


def _explain(figure: Figure, answers: Mapping[str, str], note: str) -> None:
    """What colors and dots mean, below the note."""
    kinds = [Line2D([], [], color=_COLORS[a], marker="o", label=answers[a]) for a in answers]
    full, reduced = (
        Line2D(
            [], [], color=style.INK, linestyle="", marker="o", markerfacecolor=inside, label=text
        )
        for inside, text in ((style.INK, "trained in full"), ("white", "reduced runs"))
    )
    figure.legend(
        handles=[*kinds, full, reduced],
        loc="outside lower left",
        ncols=5,
        title=note,
        alignment="left",
    )


FIGURES: dict[str, tuple[Callable[[Sources], list[Panel]], Callable[[Sequence[Panel]], Figure]]] = {
    "verdict-claims.png": (claims_panels, draw_claims),
    "verdict-controls.png": (controls_panels, draw_controls),
}


def write_figures(folder: Path, results: Path) -> None:
    """Draw every figure anew into `folder`."""
    sources = Sources(results)
    for name, (make, draw) in FIGURES.items():
        panels = make(sources)
        with style.style():
            content = image_bytes(draw(panels), "png", Description="\n".join(map(str, panels)))
        files.write_bytes(folder / name, content)
