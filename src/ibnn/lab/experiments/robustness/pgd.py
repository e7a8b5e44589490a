"""Security curves: robust accuracy under projected gradient descent against its size."""

from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any

from torch import Tensor

from ibnn.lab import data
from ibnn.lab.attacks import PGD, Transfer
from ibnn.lab.experiments.experiment import Run
from ibnn.lab.experiments.protocol import attack_line
from ibnn.lab.experiments.readings import NOT_YET, median_lam, numbers
from ibnn.lab.experiments.robustness import networks
from ibnn.lab.experiments.robustness.networks import LEARNT, STANDARD, Groups, RobustnessExperiment
from ibnn.lab.plotting import style
from ibnn.lab.plotting.bands import draw_band
from ibnn.lab.results import Claim, Picture, Table
from ibnn.lab.stats import Paired, claim, difference, paired, percent, sentence

SIZES = 8  # of eps, beside 0
WHITE_BOX, TRANSFER = "white_box", "transfer"
MEAN = "mean over all eps above 0"  # see `robust_accuracy`


def sizes(dataset: str) -> list[float]:
    """The eps of a curve, 0 first."""
    largest = data.defaults(dataset).largest_eps
    return [largest * step / SIZES for step in range(SIZES + 1)]


def pgd_curve(run: Run, x: Tensor, y: Tensor, transferred: bool = False) -> list[float]:
    """Accuracy of a run's network at every eps, attacked with its own gradients or its twin's."""
    network, found = networks.attacked_network(run), []
    for eps in sizes(run.config.dataset):
        attack = Transfer(PGD(eps)) if transferred else PGD(eps)
        success = attack(network, x, y, generator=networks.randomness(run, "pgd")).success
        found.append(1 - float(success.double().mean()))
    return found


class PgdCurves(RobustnessExperiment):
    """PGD in l_inf from a random point of the ball, with its default number of steps."""

    name = "pgd"
    title = "Robust accuracy: PGD"

    def attack_lines(self, runs: Sequence[Run]) -> list[tuple[str, str]]:
        eps = ", ".join(f"{size:.3g}" for size in eps_of(runs[0]))
        return [("Attack", attack_line(PGD(0.0), varied="eps")), ("eps", eps)]

    def measure(self, run: Run) -> dict[str, Any]:
        """Accuracy at every eps, attacked with the network's own gradients and its twin's."""
        x, y = networks.attacked_images(run)
        values: dict[str, Any] = {"images": len(x), "eps": sizes(run.config.dataset)}
        values[WHITE_BOX] = pgd_curve(run, x, y)
        if run.config.neuron == "implicit":
            values[TRANSFER] = pgd_curve(run, x, y, transferred=True)
        return values

    def picture(self, groups: Groups, note: str) -> Picture:
        figure, (axes,) = style.figure(
            width=6.4, height=4.6, title="Robust accuracy against the size of the PGD attack"
        )
        for name, runs in groups.items():
            for kind, line in ((WHITE_BOX, "-"), (TRANSFER, "--")):
                eps, values = _curves(runs, kind)
                label = name if kind == WHITE_BOX else f"{name}: transfer"
                draw_band(
                    axes,
                    eps,
                    [[100 * value for value in at] for at in values],
                    color=networks.COLORS[name],
                    label=label,
                    fraction=1.0,
                    line=line,
                )
        axes.set_xlabel("eps (l_inf, images in [0, 1])")
        axes.set_ylabel("robust accuracy, %")
        axes.set_ylim(bottom=0)
        axes.legend(loc="best")
        style.footnote(figure, note)
        caption = (
            "Solid: white box, each network attacked with its own exact gradients. Dashed: "
            "transfer, the paper's way of attacking implicit-bias networks, with the gradients of "
            "their λ = 0 twin."
        )
        return Picture("pgd", figure, caption)

    def headline(self, groups: Groups) -> str:
        white = _against(groups, LEARNT, WHITE_BOX)
        if white is None:
            return NOT_YET
        robust = sentence(white, networks.IS_ROBUST, "more", "less")
        return (
            f"With λ learnt ({median_lam(groups[LEARNT])}) and the same white-box attack, "
            f"{robust}: robust accuracy, {MEAN}, {difference(white)}. Attacked through its twin, "
            f"as in the paper: {difference(_against(groups, LEARNT, TRANSFER))}."
        )

    def claims(self, groups: Groups, name: str) -> list[Claim]:
        transferred, white = _against(groups, name, TRANSFER), _against(groups, name, WHITE_BOX)
        lost = paired(drop(groups[name]), drop(groups[STANDARD]))
        return [
            claim(
                f"{name}: robust accuracy under PGD is above the standard network's (the paper's "
                "attack: through the λ = 0 twin).",
                f"Transfer, {MEAN}: {difference(transferred)}",
                transferred,
            ),
            claim(
                f"{name}: the same when both face the same white-box attack.",
                f"White box, {MEAN}: {difference(white)}. Drop from the clean accuracy, implicit "
                f"minus standard: {difference(lost)}",
                white,
                ours=True,
            ),
        ]

    def rows(self, name: str, seed: int, run: Run) -> list[dict[str, object]]:
        return [
            {
                "network": name,
                "seed": seed,
                "lam": numbers(run.result.lam),
                "attack": kind,
                "eps": size,
                "accuracy": value,
                "images": run.measured["images"],
                "run": run.result.identity,
            }
            for kind in (WHITE_BOX, TRANSFER)
            for size, value in zip(eps_of(run), run.measured.get(kind, ()), strict=False)
        ]

    def table(self, groups: Groups) -> Table:
        rows, eps = [], []
        for name, runs in groups.items():
            for kind in (WHITE_BOX, TRANSFER):
                attacked, values = _curves(runs, kind)
                if values:
                    eps = attacked
                    middle = (percent(median(at)) for at in values)
                    rows.append((name, kind.replace("_", " "), *middle))
        columns = ("Network", "Attack", *(f"eps {size:.3g}" for size in eps))
        return Table("Median robust accuracy at every eps", columns, rows)


def eps_of(run: Run) -> list[float]:
    """The sizes a run was attacked with; older measurements do not store them, but had today's."""
    return run.measured.get("eps") or sizes(run.config.dataset)


def robust_accuracy(runs: Mapping[int, Run], kind: str = WHITE_BOX) -> dict[int, float]:
    """The accuracy under attack of each network, the mean over every eps above 0."""
    return {
        seed: fmean(run.measured[kind][1:]) for seed, run in runs.items() if kind in run.measured
    }


def drop(runs: Mapping[int, Run]) -> dict[int, float]:
    """What the white-box attack takes from each network, the mean over every eps above 0."""
    robust = robust_accuracy(runs)
    return {seed: run.measured[WHITE_BOX][0] - robust[seed] for seed, run in runs.items()}


def _against(groups: Groups, name: str, kind: str) -> Paired | None:
    return paired(robust_accuracy(groups[name], kind), robust_accuracy(groups[STANDARD]))


def _curves(runs: Mapping[int, Run], kind: str) -> tuple[list[float], list[Sequence[float]]]:
    """The sizes of an attack, and the accuracies of every network at each of them."""
    attacked = [run for run in runs.values() if kind in run.measured]
    eps = eps_of(attacked[0]) if attacked else []
    return eps, list(zip(*(run.measured[kind] for run in attacked), strict=True))
