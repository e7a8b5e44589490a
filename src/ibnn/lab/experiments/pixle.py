"""Accuracy before and under Pixle, a black-box attack that rearranges a few pixels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from ibnn.lab.attacks import Pixle
from ibnn.lab.experiments import comparison_words as words
from ibnn.lab.experiments.experiment import Claim, Findings, Picture, Run, Settings, Table
from ibnn.lab.experiments.lam_modes import Learnt
from ibnn.lab.experiments.pgd import COLOURS
from ibnn.lab.experiments.robustness import (
    LEARNT,
    NEGATIVE,
    NOTES,
    STANDARD,
    RobustnessExperiment,
    attacked_images,
    clean_gap,
    randomness,
    whole_range,
)
from ibnn.lab.report import style
from ibnn.lab.report.statistics import decide, paired, percent

Groups = Mapping[str, Mapping[int, Run]]


class PixleBars(RobustnessExperiment):
    """10 restarts of 5 tries with patches of 3 x 3 and the similarity mapping, as published."""

    name = "pixle"
    title = "Accuracy under attack: Pixle"

    def measure(self, run: Run) -> dict[str, Any]:
        """Accuracy without and with the attack on the same images."""
        network, (x, y) = run.network(), attacked_images(run)
        found = Pixle()(network, x, y, generator=randomness(run, "pixle"))
        clean = float((found.queries > 0).double().mean())  # wrong images are left alone
        return {
            "images": len(x),
            "clean": clean,
            "attacked": 1 - float(found.success.double().mean()),
            "queries": float(found.queries.double().mean()),
        }

    def find(self, settings: Settings, runs: Sequence[Run]) -> Findings:
        groups = self.groups(settings, runs)
        images = max(run.measured["images"] for run in runs)
        note = (
            f"{self.preset(settings).seeds} networks of each kind, {images:,} test images, "
            f"{self.preset(settings).epochs} epochs of training; median and whole range"
        )
        return Findings(
            headline=_headline(groups),
            pictures=[Picture("pixle", _draw(groups, note), _CAPTION)],
            claims=[_claim(groups, name) for name in (LEARNT, NEGATIVE)],
            rows=_rows(groups),
            tables=[_table(groups)],
            notes=[clean_gap(groups), *NOTES],
            settings=[
                ("Attack", "Pixle: 10 restarts x 5 tries, 3 x 3 patches, similarity mapping"),
                *words.settings_lines(self, settings, Learnt(), runs),
                ("λ < 0", f"fixed at {NEGATIVE.split('= ')[1]} in the third group"),
            ],
        )


_CAPTION = (
    "Accuracy on clean images (translucent) and under Pixle (solid), median of the networks; "
    "whiskers are the whole range."
)


def attacked(runs: Mapping[int, Run]) -> dict[int, float]:
    """Accuracy under attack of each network."""
    return {seed: run.measured["attacked"] for seed, run in runs.items()}


def _draw(groups: Groups, note: str) -> Figure:
    figure, (axes,) = style.figure(width=6.4, height=3.6)
    names = [name for name in groups if groups[name]]
    for place, name in enumerate(names):
        for kind, alpha, where in (("clean", 0.3, "bottom"), ("attacked", 1.0, "top")):
            found = whole_range([100 * run.measured[kind] for run in groups[name].values()])
            axes.bar(place, found.median, width=0.6, color=COLOURS[name], alpha=alpha)
            reach = [[found.median - found.low], [found.high - found.median]]
            axes.errorbar(place, found.median, yerr=reach, color=style.INK, capsize=4, lw=1)
            axes.text(place + 0.34, found.median, f"{found.median:.1f}", va=where, fontsize=8)
    axes.set_xticks(range(len(names)), names)
    axes.grid(axis="x", visible=False)
    axes.set_ylabel("accuracy, %")
    style.footnote(figure, note)
    return figure


def _headline(groups: Groups) -> str:
    found = paired(attacked(groups[LEARNT]), attacked(groups[STANDARD]))
    if found is None:
        return words.NOT_YET
    return (
        "Under Pixle the accuracy of the implicit-bias network (λ learnt) differs from the "
        f"standard one's by {words.difference(found)}."
    )


def _claim(groups: Groups, name: str) -> Claim:
    found = paired(attacked(groups[name]), attacked(groups[STANDARD]))
    lost = paired(_lost(groups[name]), _lost(groups[STANDARD]))
    return Claim(
        f"{name}: accuracy under Pixle is above the standard network's.",
        f"Under attack: {words.difference(found)}. What the attack takes from the clean accuracy, "
        f"implicit minus standard: {words.difference(lost)}",
        decide(found, "more"),
    )


def _lost(runs: Mapping[int, Run]) -> dict[int, float]:
    return {s: run.measured["clean"] - run.measured["attacked"] for s, run in runs.items()}


def _rows(groups: Groups) -> list[dict[str, Any]]:
    return [
        {
            "network": name,
            "seed": seed,
            "lam": " ".join(f"{value:.5g}" for value in run.result.lam),
            **run.measured,
            "run": run.result.identity,
        }
        for name, runs in groups.items()
        for seed, run in runs.items()
    ]


def _table(groups: Groups) -> Table:
    rows = []
    for name, runs in groups.items():
        if runs:
            columns = [[run.measured[kind] for run in runs.values()] for kind in _KINDS]
            middle = [whole_range(values).median for values in columns]
            rows.append((name, percent(middle[0]), percent(middle[1]), f"{middle[2]:.1f}"))
    return Table("Medians", ("Network", "Clean", "Under Pixle", "Queries per image"), rows)


_KINDS = ("clean", "attacked", "queries")
