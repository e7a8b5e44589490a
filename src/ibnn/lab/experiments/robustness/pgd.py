"""Security curves: accuracy under projected gradient descent against the size of the attack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure

from ibnn.lab.attacks import PGD, Attack, Transfer
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
    lam_of,
    randomness,
    whole_range,
)
from ibnn.lab.plotting import style
from ibnn.lab.results import Claim, Findings, Picture, Table
from ibnn.lab.stats import Paired, decide, paired, percent

LARGEST = {"fashion-mnist": 0.1, "mnist": 0.1, "digits": 0.1}  # of eps; 0.03 elsewhere
SIZES = 8  # of eps, beside 0
WHITE_BOX, TRANSFER = "white_box", "transfer"
COLOURS = {STANDARD: style.STANDARD, LEARNT: style.IMPLICIT, NEGATIVE: style.OTHER}

Groups = Mapping[str, Mapping[int, Run]]


def sizes(dataset: str) -> list[float]:
    """The eps of a curve, 0 first."""
    largest = LARGEST.get(Path(dataset).stem, 0.03)
    return [largest * step / SIZES for step in range(SIZES + 1)]


class PgdCurves(RobustnessExperiment):
    """PGD with 10 steps of eps / 4 in l_inf, from the image itself outwards."""

    name = "pgd"
    title = "Accuracy under attack: PGD"

    def measure(self, run: Run) -> dict[str, Any]:
        """Accuracy at every eps, attacked with the network's own gradients and its twin's."""
        network, (x, y) = run.network(), attacked_images(run)

        def curve(transferred: bool) -> list[float]:
            found = []
            for eps in sizes(run.config.dataset):
                attack: Attack = PGD(eps)
                attack = Transfer(attack) if transferred else attack
                success = attack(network, x, y, generator=randomness(run, "pgd")).success
                found.append(1 - float(success.double().mean()))
            return found

        values: dict[str, Any] = {"images": len(x), WHITE_BOX: curve(transferred=False)}
        if run.config.neuron == "implicit":
            values[TRANSFER] = curve(transferred=True)
        return values

    def find(self, settings: Settings, runs: Sequence[Run]) -> Findings:
        groups = self.groups(settings, runs)
        eps = sizes(self.dataset(settings))
        images = max(run.measured["images"] for run in runs)
        note = (
            f"{self.preset(settings).seeds} networks of each kind, {images:,} test images, "
            f"{self.preset(settings).epochs} epochs of training; median and whole range"
        )
        return Findings(
            headline=_headline(groups),
            pictures=[Picture("pgd", _draw(groups, eps, note), _CAPTION)],
            claims=_claims(groups),
            rows=_rows(groups, eps),
            tables=[_table(groups, eps)],
            notes=[
                clean_gap(groups),
                *NOTES,
                "A curve is the accuracy under one attack of 10 steps, as in the paper: stronger "
                "ones leave less (`ibnn attack`).",
            ],
            settings=[
                ("Attack", "PGD in l_inf, 10 steps of eps / 4, random start, cross-entropy"),
                *words.settings_lines(self, settings, Learnt(), runs),
                ("λ < 0", f"fixed at {NEGATIVE.split('= ')[1]} in the third group"),
            ],
        )


_CAPTION = (
    "Accuracy against the size of the attack. Solid: white box, each network attacked with its "
    "own exact gradients. Dashed: transfer, the paper's way of attacking implicit-bias networks, "
    "with the gradients of their λ = 0 twin."
)


def _draw(groups: Groups, eps: Sequence[float], note: str) -> Figure:
    figure, (axes,) = style.figure(width=6.4, height=4.4)
    for name, runs in groups.items():
        for kind, line in ((WHITE_BOX, "-"), (TRANSFER, "--")):
            curves = [run.measured[kind] for run in runs.values() if kind in run.measured]
            if not curves:
                continue
            bands = [whole_range([100 * v for v in values]) for values in zip(*curves, strict=True)]
            colour = COLOURS[name]
            low, high = [b.low for b in bands], [b.high for b in bands]
            axes.fill_between(eps, low, high, color=colour, alpha=0.15, linewidth=0)
            label = name if kind == WHITE_BOX else f"{name}: transfer"
            axes.plot(eps, [b.median for b in bands], line, color=colour, label=label)
    axes.set_xlabel("eps (l_inf, images in [0, 1])")
    axes.set_ylabel("accuracy, %")
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper right")
    style.footnote(figure, note)
    return figure


def under_attack(runs: Mapping[int, Run], kind: str = WHITE_BOX) -> dict[int, float]:
    """Accuracy under attack of each network, the mean over every eps above 0."""
    return {
        seed: fmean(run.measured[kind][1:]) for seed, run in runs.items() if kind in run.measured
    }


def drop(runs: Mapping[int, Run]) -> dict[int, float]:
    """What the white-box attack takes from each network, the mean over every eps above 0."""
    left = under_attack(runs)
    return {seed: run.measured[WHITE_BOX][0] - left[seed] for seed, run in runs.items()}


def _against(groups: Groups, name: str, kind: str) -> Paired | None:
    return paired(under_attack(groups[name], kind), under_attack(groups[STANDARD]))


def _headline(groups: Groups) -> str:
    found = _against(groups, LEARNT, WHITE_BOX)
    if found is None:
        return words.NOT_YET
    return (
        "Under the same white-box attack the implicit-bias network keeps "
        f"{words.difference(found)} of accuracy compared with the standard one (mean over all "
        f"eps, λ learnt: {lam_of(groups[LEARNT])}); under transfer from its twin, the paper's "
        f"attack, {words.difference(_against(groups, LEARNT, TRANSFER))}."
    )


def _claims(groups: Groups) -> list[Claim]:
    claims = []
    for name in (LEARNT, NEGATIVE):
        transferred, white = _against(groups, name, TRANSFER), _against(groups, name, WHITE_BOX)
        lost = paired(drop(groups[name]), drop(groups[STANDARD]))
        claims += [
            Claim(
                f"{name}: accuracy under PGD is above the standard network's (the paper's attack: "
                "through the λ = 0 twin).",
                f"Transfer, mean over all eps: {words.difference(transferred)}",
                decide(transferred, "more"),
            ),
            Claim(
                f"{name}: the same when both face the same white-box attack.",
                f"White box, mean over all eps: {words.difference(white)}. What the attack takes "
                f"from the clean accuracy, implicit minus standard: {words.difference(lost)}",
                decide(white, "more"),
            ),
        ]
    return claims


def _rows(groups: Groups, eps: Sequence[float]) -> list[dict[str, Any]]:
    return [
        {
            "network": name,
            "seed": seed,
            "lam": " ".join(f"{value:.5g}" for value in run.result.lam),
            "attack": kind,
            "eps": size,
            "accuracy": value,
            "images": run.measured["images"],
            "run": run.result.identity,
        }
        for name, runs in groups.items()
        for seed, run in runs.items()
        for kind in (WHITE_BOX, TRANSFER)
        for size, value in zip(eps, run.measured.get(kind, ()), strict=False)
    ]


def _table(groups: Groups, eps: Sequence[float]) -> Table:
    rows = []
    for name, runs in groups.items():
        for kind in (WHITE_BOX, TRANSFER):
            curves = [run.measured[kind] for run in runs.values() if kind in run.measured]
            if curves:
                middle = [whole_range(values).median for values in zip(*curves, strict=True)]
                rows.append((name, kind.replace("_", " "), *(percent(v) for v in middle)))
    return Table(
        "Median accuracy at every eps",
        ("Network", "Attack", *(f"{size:.3g}" for size in eps)),
        rows,
    )
