"""What the boundary experiment says about its runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from ibnn.lab.experiments.experiment import Preset, Run
from ibnn.lab.results import Claim, Table
from ibnn.lab.stats import Paired, decide, paired, percent, spread

if TYPE_CHECKING:
    from ibnn.lab.experiments.boundary.experiment import Condition

Groups = Mapping["Condition", Sequence[Run]]

LINES = (
    "Where each network is undecided between the two classes (pale dots: validation points). "
    "Every line is the seed with the median validation accuracy of its setting, which stands in "
    "the legend. Left: λ at p = 10. Right: p at the λ with the best training accuracy."
)
NETWORKS = (
    "Every network, worst to best seed from left to right, with its validation accuracy in per "
    "cent: the plane as it divides it."
)
SEEDS = "Every seed of every setting; the bar is the median."
ENERGY = (
    "The solve as a descent of the energy the paper defines. Left: 100 units with pre-activations "
    "of standard deviation 0.5. Right: three units with λ < 0 move towards each other; the level "
    "lines are those of the energy in the plane they cannot leave, since their mean is kept."
)

_START = {
    "torch": "Weights start at PyTorch's default. The published image networks start from far "
    "smaller ones (preset paper): there, negative λ keeps the three units alike and they hardly "
    "learn.",
    "paper": "Weights start as small as those of the published image networks (standard deviation "
    "0.001), since the paper does not say how those of this figure did; preset cpu starts at "
    "PyTorch's default.",
}


@dataclass(frozen=True)
class Story:
    """The runs by their place in the figure; `best` are those of the λ chosen for the right."""

    standard: Sequence[Run]
    left: Groups
    right: Groups
    best: Sequence[Run]


def headline(story: Story) -> str:
    """The main finding in a sentence or two."""
    if not story.standard or not story.best:
        return "Not all runs of the first sweep are finished: no comparison yet."
    difference = paired(_accuracy(story.best), _accuracy(story.standard))
    count = f"medians of {len(story.best)} seeds" if len(story.best) > 1 else "one seed"
    text = (
        f"With three hidden neurons, the implicit-bias network (λ = {story.best[0].config.lam:g}) "
        f"classifies {_median(story.best)} of the validation points, "
        f"the standard one {_median(story.standard)} ({count})"
    )
    return text + (f"; difference {difference.percentage_points()}." if difference else ".")


def claims(story: Story) -> list[Claim]:
    """The paper's sentences about the figure beside what was measured."""
    accuracy = paired(_accuracy(story.best), _accuracy(story.standard))
    solidity = paired(_of("solidity", story.best), _of("solidity", story.standard))
    strong, weak = _ends([runs for c, runs in story.left.items() if (c.lam or 0) < 0])
    bent = paired(_of("curved_share", strong), _of("curved_share", weak))
    shallow, steep = _ends(list(story.right.values()))
    sharp = paired(_of("curved_share", steep), _of("curved_share", shallow))
    return [
        Claim(
            "The implicit-bias network is more expressive than the standard one.",
            f"Best of the seeds: standard {_best(story.standard)}, implicit {_best(story.best)}; "
            + _difference("mean difference of validation accuracy", accuracy),
            decide(accuracy, "more"),
        ),
        Claim(
            "It approximates the non-convex boundary; the standard network only produces a "
            "convex polygon.",
            f"Area of the inner region divided by that of its convex hull (1 is convex): standard "
            f"{_middle('solidity', story.standard)}, implicit {_middle('solidity', story.best)}; "
            + _difference("difference", solidity),
            decide(solidity, "less"),
        ),
        Claim(
            "The boundary becomes more curved as the magnitude of λ increases.",
            f"Share of the boundary that bends: {_list(story.left, lambda c: c.short)}; standard "
            f"{_middle('curved_share', story.standard)}. "
            + _difference(f"{_name(strong)} against {_name(weak)}", bent),
            decide(bent, "more"),
        ),
        Claim(
            "p controls how sharp the transitions between the arcs of the boundary are.",
            f"Share of the boundary that bends: "
            f"{_list(story.right, lambda c: f'p = {c.slope:g}')}. "
            + _difference(f"{_name(steep)} against {_name(shallow)}", sharp),
            decide(sharp, "less"),
        ),
    ]


def row(run: Run) -> dict[str, Any]:
    """One line of the CSV."""
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
        "curved_share": run.measured["curved_share"],
        "parameters": run.result.parameters,
        "epochs": run.result.epochs,
        "run": run.result.identity,
    }


def table(groups: Groups) -> Table:
    """Every setting of the figure."""
    return Table(
        "Every setting",
        ("Network", "Validation accuracy", "Training accuracy", "Area / hull", "Bends", "Seeds"),
        [
            (
                condition.label,
                spread([run.result.accuracy for run in runs]),
                percent(median(run.result.train_accuracy for run in runs)),
                _middle("solidity", runs),
                _middle("curved_share", runs),
                str(len(runs)),
            )
            for condition, runs in groups.items()
        ],
    )


def notes(story: Story) -> list[str]:
    """Our choices where the paper is silent."""
    capped = [c for c in story.right if story.best and c.lam != story.best[0].config.lam]
    return [
        "The paper does not give the shapes, the number of samples, the values of λ and p, or the "
        "training of this figure: all of these are ours.",
        "λ of the right panel is the one with the best median accuracy on the training points; "
        "the validation points choose nothing.",
        *(
            f"{c.label}: above the threshold 1/p the solution need not be unique, so λ acts at "
            "0.95 of it, as a learnt λ would."
            for c in capped
        ),
        "Yes and no in the table need at least five pairs of seeds and a 95 % confidence interval "
        "of the paired difference that excludes zero. Seeds differ in weights and data order; the "
        "points are the same.",
        *(_START[kind] for kind in sorted({run.config.initialisation for run in story.standard})),
        "The networks of a sweep are trained together as one batch of networks; trained alone "
        ""
        "they take the same steps up to rounding, which 200 epochs may amplify in single networks.",
    ]


def settings(preset: Preset) -> list[tuple[str, str]]:
    """How the runs were trained."""
    return [
        ("Network", "2 inputs, 3 hidden units, ReLU, batch normalisation, 1 output"),
        ("Neuron", "sigma(z) = tanh(p z), w = 1/3, λ fixed"),
        ("Training", f"{preset.epochs} epochs after 2 of warm-up with standard neurons"),
        (
            "Optimizer",
            "SGD, momentum 0.9, batch 128, learning rate 0.001 to 0.01 and back, "
            "gradient norm at most 1",
        ),
        ("Initialisation", str(preset.more.get("initialisation", "paper"))),
        ("Seeds", str(preset.seeds)),
    ]


def _accuracy(runs: Sequence[Run]) -> dict[int, float]:
    return {run.config.seed: run.result.accuracy for run in runs}


def _of(key: str, runs: Sequence[Run]) -> dict[int, float]:
    found = {run.config.seed: run.measured[key] for run in runs}
    return {seed: value for seed, value in found.items() if value is not None}


def _median(runs: Sequence[Run]) -> str:
    return percent(median(run.result.accuracy for run in runs))


def _best(runs: Sequence[Run]) -> str:
    return percent(max(run.result.accuracy for run in runs)) if runs else "none"


def _middle(key: str, runs: Sequence[Run]) -> str:
    values = _of(key, runs).values()
    return f"{median(values):.2f}" if values else "none"


def _list(groups: Groups, name: Callable[[Condition], str]) -> str:
    parts = [f"{name(c)}: {_middle('curved_share', runs)}" for c, runs in groups.items()]
    return ", ".join(parts) or "not trained yet"


def _name(runs: Sequence[Run]) -> str:
    if not runs:
        return "none"
    return f"λ = {runs[0].config.lam:.3g}, p = {runs[0].config.slope:g}"


def _ends(groups: Sequence[Sequence[Run]]) -> tuple[Sequence[Run], Sequence[Run]]:
    return (groups[0], groups[-1]) if groups else ((), ())


def _difference(what: str, difference: Paired | None) -> str:
    return f"{what} {difference.percentage_points() if difference else 'not known yet'}"
