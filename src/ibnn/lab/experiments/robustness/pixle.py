"""Accuracy before and under Pixle, a black-box attack that rearranges a few pixels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure

from ibnn.lab.attacks import Pixle
from ibnn.lab.experiments.accuracy import tables as words
from ibnn.lab.experiments.experiment import Run, Settings
from ibnn.lab.experiments.lam_modes import Learnt
from ibnn.lab.experiments.robustness.networks import (
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
from ibnn.lab.experiments.robustness.pgd import COLOURS
from ibnn.lab.plotting import style
from ibnn.lab.results import Claim, Findings, Picture, Table
from ibnn.lab.stats import decide, paired, percent

Groups = Mapping[str, Mapping[int, Run]]


# The published runs used torchattacks, which exchanges row and column when it writes a pixel
# (see `Pixle`): that is the attack of the figure, the others stand in the table.
PUBLISHED = "similarity, as torchattacks writes it"
VARIANTS = {
    PUBLISHED: Pixle(mirrored=True),
    "similarity": Pixle(),
    "random": Pixle(mapping="random"),
}


class PixleBars(RobustnessExperiment):
    """10 restarts of 5 tries with patches of 3 x 3 and the similarity mapping, as published."""

    name = "pixle"
    title = "Accuracy under attack: Pixle"
    measures = 2

    def measure(self, run: Run) -> dict[str, Any]:
        """Accuracy without and with the attack, in every variant, on the same images."""
        network, (x, y) = run.network(), attacked_images(run)
        square = x.shape[-2] == x.shape[-1]
        values: dict[str, Any] = {"images": len(x)}
        for name, attack in VARIANTS.items():
            chosen = attack if square else replace(attack, mirrored=False)
            found = chosen(network, x, y, generator=randomness(run, "pixle"))
            values["clean"] = float((found.queries > 0).double().mean())  # wrong ones: no query
            values[name] = 1 - float(found.success.double().mean())
        return values

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
            notes=[
                clean_gap(groups),
                "The similarity mapping puts a pixel where the image already has nearly its value, "
                "so that it changes next to nothing. torchattacks 3.5.1, which the paper used, "
                "exchanges row and column when it writes: its pixels land elsewhere, and the "
                "attack works. Both are in the table, with the random mapping, the strongest.",
                *NOTES,
            ],
            settings=[
                ("Attack", f"Pixle: 10 restarts x 5 tries, 3 x 3 patches; mapping {PUBLISHED}"),
                *words.settings_lines(self, settings, Learnt(), runs),
                ("λ < 0", f"fixed at {NEGATIVE.split('= ')[1]} in the third group"),
            ],
        )


_CAPTION = (
    "Accuracy on clean images (translucent) and under Pixle (solid), median of the networks; "
    "whiskers are the whole range."
)


def attacked(runs: Mapping[int, Run], variant: str = PUBLISHED) -> dict[int, float]:
    """Accuracy under attack of each network."""
    return {seed: run.measured[variant] for seed, run in runs.items()}


def _draw(groups: Groups, note: str) -> Figure:
    figure, (axes,) = style.figure(width=6.4, height=3.6)
    names = [name for name in groups if groups[name]]
    for place, name in enumerate(names):
        for kind, alpha, where in (("clean", 0.3, "bottom"), (PUBLISHED, 1.0, "top")):
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
    hard = paired(attacked(groups[name], "random"), attacked(groups[STANDARD], "random"))
    return Claim(
        f"{name}: accuracy under Pixle is above the standard network's.",
        f"Under attack: {words.difference(found)}. What the attack takes from the clean accuracy, "
        f"implicit minus standard: {words.difference(lost)}. With the random mapping, a stronger "
        f"attack: {words.difference(hard)}",
        decide(found, "more"),
    )


def _lost(runs: Mapping[int, Run]) -> dict[int, float]:
    return {s: run.measured["clean"] - run.measured[PUBLISHED] for s, run in runs.items()}


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
    kinds = ("clean", *VARIANTS)
    rows = []
    for name, runs in groups.items():
        if runs:
            columns = [[run.measured[kind] for run in runs.values()] for kind in kinds]
            rows.append((name, *(percent(whole_range(values).median) for values in columns)))
    mappings = (f"Mapping: {name}" for name in VARIANTS)
    return Table("Median accuracy", ("Network", "Clean", *mappings), rows)
