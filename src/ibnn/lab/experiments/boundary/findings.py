"""What the boundary experiment makes of its runs: claims, tables and rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from ibnn.lab.experiments.experiment import Run
from ibnn.lab.experiments.plane import Condition
from ibnn.lab.experiments.readings import NOT_YET, last_accuracy
from ibnn.lab.results import Claim, Table
from ibnn.lab.stats import both_means, claim, difference, paired, percent, sentence, spread

Groups = Mapping[Condition, Sequence[Run]]


@dataclass(frozen=True)
class Panels:
    """The runs by their place in the figure; `best` are those of the lam chosen for the right."""

    standard: Sequence[Run]
    left: Groups
    right: Groups
    best: Sequence[Run]

    def headline(self) -> str:
        if not self.standard or not self.best:
            return NOT_YET
        found = paired(_by_seed(self.best), _by_seed(self.standard))
        text = "the implicit-bias network classifies {} points than the standard one"
        better = sentence(found, text, "more", "fewer")
        config = self.best[0].config
        return (
            f"With {config.hidden} hidden neurons (λ = {config.lam:g}), {better}: validation "
            f"accuracy {both_means(found)}."
        )

    def claims(self) -> list[Claim]:
        """The paper's sentences about the figure beside what was measured."""
        accuracy = paired(_by_seed(self.best), _by_seed(self.standard))
        solidity = paired(_of("solidity", self.best), _of("solidity", self.standard))
        strong, weak = _ends([runs for c, runs in self.left.items() if (c.lam or 0) < 0])
        bent = paired(_of("curved_fraction", strong), _of("curved_fraction", weak))
        shallow, steep = _ends(list(self.right.values()))
        sharp = paired(_of("curved_fraction", steep), _of("curved_fraction", shallow))
        return [
            claim(
                "The implicit-bias network is more expressive than the standard one.",
                f"Best of the seeds: standard {_best(self.standard)}, implicit "
                f"{_best(self.best)}. Means, implicit against standard: {both_means(accuracy)}",
                accuracy,
            ),
            claim(
                "It approximates the non-convex boundary; the standard network only produces a "
                "convex polygon.",
                f"Area of the inner region divided by that of its convex hull (1 is convex), "
                f"medians: standard {_middle('solidity', self.standard)}, implicit "
                f"{_middle('solidity', self.best)}. Mean difference: {difference(solidity)}",
                solidity,
                "less",
            ),
            claim(
                "The boundary becomes more curved as the magnitude of λ increases.",
                f"Fraction of the boundary that bends, medians: "
                f"{_list(self.left, lambda c: c.short)}; standard "
                f"{_middle('curved_fraction', self.standard)}. Mean difference, {_name(strong)} "
                f"against {_name(weak)}: {difference(bent)}",
                bent,
            ),
            claim(
                "p controls how sharp the transitions between the arcs of the boundary are.",
                f"Fraction of the boundary that bends, medians: "
                f"{_list(self.right, lambda c: f'p = {c.slope:g}')}. Mean difference, "
                f"{_name(steep)} against {_name(shallow)}: {difference(sharp)}",
                sharp,
                "less",
            ),
        ]

    def notes(self) -> list[str]:
        """Where lam of the right panel is not the chosen one."""
        return [
            f"{condition.label}: the chosen λ would be above the threshold of uniqueness, so it "
            "acts below it."
            for condition in self.right
            if self.best and condition.lam != self.best[0].config.lam
        ]


def row(run: Run) -> dict[str, Any]:
    implicit = run.config.neuron == "implicit"
    return {
        "neuron": run.config.neuron,
        "lam": run.config.lam if implicit else "",
        "slope": run.config.slope if implicit else "",
        "seed": run.config.seed,
        "accuracy": run.result.accuracy,
        "best_accuracy": run.result.best_accuracy,
        "best_epoch": run.result.best_epoch,
        "train_accuracy": run.result.train_accuracy,
        "loss": run.result.loss,
        "solidity": run.measured["solidity"],
        "curved_fraction": run.measured["curved_fraction"],
        "parameters": run.result.parameters,
        "epochs": run.result.epochs,
        "run": run.result.identity,
    }


def table(groups: Groups) -> Table:
    return Table(
        "Every setting: medians over seeds, accuracy with its range",
        ("Network", "Validation accuracy", "Training accuracy", "Area / hull", "Bends", "Seeds"),
        [
            (
                condition.label,
                spread([run.result.accuracy for run in runs]),
                percent(median(run.result.train_accuracy for run in runs)),
                _middle("solidity", runs),
                _middle("curved_fraction", runs),
                str(len(runs)),
            )
            for condition, runs in groups.items()
        ],
    )


def _by_seed(runs: Sequence[Run]) -> dict[int, float]:
    return {run.config.seed: last_accuracy(run) for run in runs}


def _of(key: str, runs: Sequence[Run]) -> dict[int, float]:
    found = {run.config.seed: run.measured[key] for run in runs}
    return {seed: value for seed, value in found.items() if value is not None}


def _best(runs: Sequence[Run]) -> str:
    return percent(max(map(last_accuracy, runs))) if runs else "none"


def _middle(key: str, runs: Sequence[Run]) -> str:
    values = _of(key, runs).values()
    return f"{median(values):.2f}" if values else "none"


def _list(groups: Groups, name: Callable[[Condition], str]) -> str:
    parts = [f"{name(c)}: {_middle('curved_fraction', runs)}" for c, runs in groups.items()]
    return ", ".join(parts) or "not trained yet"


def _name(runs: Sequence[Run]) -> str:
    if not runs:
        return "none"
    return f"λ = {runs[0].config.lam:.3g}, p = {runs[0].config.slope:g}"


def _ends(groups: Sequence[Sequence[Run]]) -> tuple[Sequence[Run], Sequence[Run]]:
    return (groups[0], groups[-1]) if groups else ((), ())
