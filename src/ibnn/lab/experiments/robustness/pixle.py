"""Accuracy before and under Pixle, a black-box attack that rearranges a few pixels."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, median
from typing import Any

from ibnn.lab.attacks import Pixle
from ibnn.lab.experiments.experiment import Run
from ibnn.lab.experiments.protocol import attack_line
from ibnn.lab.experiments.readings import NOT_YET, numbers
from ibnn.lab.experiments.robustness import networks
from ibnn.lab.experiments.robustness.networks import LEARNT, STANDARD, Groups, RobustnessExperiment
from ibnn.lab.plotting import style
from ibnn.lab.results import Claim, Picture, Table
from ibnn.lab.stats import Paired, band, both_means, claim, difference, paired, percent, sentence

# The published runs used torchattacks, which exchanges row and column when it writes a pixel
# (see `Pixle`): that is the attack of the figure, the others stand in the table.
PUBLISHED = "similarity, as torchattacks writes it"
VARIANTS = {
    PUBLISHED: Pixle(mirrored=True),
    "similarity": Pixle(),
    "random": Pixle(mapping="random"),
}
CLEAN = "clean"


class PixleBars(RobustnessExperiment):
    """Pixle with its published settings, and with other ways to choose where pixels go."""

    name = "pixle"
    title = "Robust accuracy: Pixle"
    measure_version = 2

    def attack_lines(self, runs: Sequence[Run]) -> list[tuple[str, str]]:
        return [(f"Attack ({name})", attack_line(attack)) for name, attack in VARIANTS.items()]

    def measure(self, run: Run) -> dict[str, Any]:
        """Accuracy without and with the attack, in every variant, on the same images."""
        network, (x, y) = networks.attacked_network(run), networks.attacked_images(run)
        square = x.shape[-2] == x.shape[-1]
        values: dict[str, Any] = {"images": len(x)}
        for name, attack in VARIANTS.items():
            chosen = attack if square else replace(attack, mirrored=False)
            found = chosen(network, x, y, generator=networks.randomness(run, "pixle"))
            values[CLEAN] = float((found.queries > 0).double().mean())  # wrong ones: no query
            values[name] = 1 - float(found.success.double().mean())
        return values

    def picture(self, groups: Groups, note: str) -> Picture:
        figure, (axes,) = style.figure(
            width=6.4, height=3.8, title="Accuracy on clean images and under Pixle"
        )
        names = [name for name in groups if groups[name]]
        for place, name in enumerate(names):
            for kind, alpha, where in ((CLEAN, 0.3, "bottom"), (PUBLISHED, 1.0, "top")):
                found = band([100 * value for value in _values(groups[name], kind).values()], 1.0)
                axes.bar(place, found.median, width=0.6, color=networks.COLORS[name], alpha=alpha)
                reach = [[found.median - found.low], [found.high - found.median]]
                axes.errorbar(place, found.median, yerr=reach, color=style.INK, capsize=4, lw=1)
                axes.text(place + 0.34, found.median, f"{found.median:.1f}", va=where, fontsize=8)
        axes.set_xticks(range(len(names)), names)
        axes.grid(axis="x", visible=False)
        axes.set_ylabel("accuracy, %")
        style.footnote(figure, note)
        caption = (
            f"Clean images (translucent) and Pixle (solid; mapping: {PUBLISHED}), median of the "
            "networks; whiskers are the whole range."
        )
        return Picture("pixle", figure, caption)

    def headline(self, groups: Groups) -> str:
        found = _against(groups, LEARNT)
        if found is None:
            return NOT_YET
        robust = sentence(found, networks.IS_ROBUST, "more", "less")
        return f"With λ learnt, under Pixle, {robust}: robust accuracy {both_means(found)}."

    def claims(self, groups: Groups, name: str) -> list[Claim]:
        found, strongest = _against(groups, name), strongest_variant(groups)
        lost = paired(_drop(groups[name]), _drop(groups[STANDARD]))
        return [
            claim(
                f"{name}: robust accuracy under Pixle is above the standard network's.",
                f"{both_means(found)}. Drop from the clean accuracy, implicit minus standard: "
                f"{difference(lost)}. Under the strongest variant here ({strongest}): "
                f"{both_means(_against(groups, name, strongest))}",
                found,
            )
        ]

    def notes(self, groups: Groups) -> list[str]:
        taken = ", ".join(f"{name}: {100 * _taken(groups, name):.1f}" for name in VARIANTS)
        return [
            *super().notes(groups),
            "Points of accuracy each mapping takes, mean over all networks: "
            f"{taken}. The strongest is {strongest_variant(groups)}.",
        ]

    def rows(self, name: str, seed: int, run: Run) -> list[dict[str, object]]:
        return [
            {
                "network": name,
                "seed": seed,
                "lam": numbers(run.result.lam),
                **run.measured,
                "run": run.result.identity,
            }
        ]

    def table(self, groups: Groups) -> Table:
        kinds = (CLEAN, *VARIANTS)
        rows = [
            (name, *(percent(median(_values(runs, kind).values())) for kind in kinds))
            for name, runs in groups.items()
            if runs
        ]
        columns = ("Network", "Clean", *(f"Mapping: {name}" for name in VARIANTS))
        return Table("Median accuracy, clean and under each variant of the attack", columns, rows)


def strongest_variant(groups: Groups) -> str:
    """The mapping that takes most accuracy, mean over all networks."""
    return max(VARIANTS, key=lambda name: _taken(groups, name))


def _values(runs: Mapping[int, Run], kind: str) -> dict[int, float]:
    return {seed: run.measured[kind] for seed, run in runs.items()}


def _against(groups: Groups, name: str, variant: str = PUBLISHED) -> Paired | None:
    return paired(_values(groups[name], variant), _values(groups[STANDARD], variant))


def _drop(runs: Mapping[int, Run]) -> dict[int, float]:
    return {s: run.measured[CLEAN] - run.measured[PUBLISHED] for s, run in runs.items()}


def _taken(groups: Groups, variant: str) -> float:
    every = [run.measured for runs in groups.values() for run in runs.values()]
    return fmean(measured[CLEAN] - measured[variant] for measured in every)
