"""What is read off finished runs: by seed, as a line of a CSV, and how much was trained."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from ibnn.lab.experiments.experiment import Run
from ibnn.lab.training import RunConfig

Reading = Callable[[Run], float]
BySeed = Mapping[int, Run]

NOT_YET = "Not all runs are finished: no comparison yet."


def best_accuracy(run: Run) -> float:
    """The best validation accuracy of a run: what the paper's figures show."""
    return run.result.best_accuracy


def last_accuracy(run: Run) -> float:
    """The validation accuracy after the last epoch."""
    return run.result.accuracy


def readings(runs: BySeed, reading: Reading = best_accuracy) -> dict[int, float]:
    """One number of each run, by seed."""
    return {seed: reading(run) for seed, run in runs.items()}


def finished(configs: Mapping[int, RunConfig | None], runs: Iterable[Run]) -> dict[int, Run]:
    """Those of the wanted runs that are among the finished ones, by seed."""
    found = {run.config.identity(): run for run in runs}
    names = {seed: config.identity() for seed, config in configs.items() if config}
    return {seed: found[name] for seed, name in names.items() if name in found}


def median_lam(runs: BySeed) -> str:
    """The lam of a group of networks, the median of each layer."""
    return medians([run.result.lam for run in runs.values() if run.result.lam]) or "none"


def medians(networks: Iterable[Sequence[float]], form: str = ".3f") -> str:
    """The median over networks of each layer's number, for readers; empty without any.

    >>> medians([[1.0, 2.0], [3.0, 2.0], [9.0, 0.0]])
    '3.000, 2.000'
    """
    return ", ".join(format(median(layer), form) for layer in zip(*networks, strict=True))


def never_learnt(curves: Iterable[tuple[str, Sequence[float]]]) -> list[str]:
    """A note that names the networks whose accuracy is the same after every epoch."""
    flat = [name for name, curve in curves if len(curve) > 1 and len(set(curve)) == 1]
    if not flat:
        return []
    return [
        "Never learnt, their accuracy is the same after every epoch; as parts of pairs they count "
        f"all the same: {'; '.join(flat)}."
    ]


def amounts(runs: Sequence[Run]) -> str:
    """The epochs and images used, to stand in a figure."""
    epochs, train, test = (
        max(getattr(run.result, name) for run in runs) for name in ("epochs", "n_train", "n_test")
    )
    kind = "held-out" if any(run.config.hold_out for run in runs) else "test"
    return f"{epochs} epochs, {train:,} training and {test:,} {kind} images"


def numbers(values: Iterable[float], digits: int = 5) -> str:
    """Several numbers in one cell of a CSV.

    >>> numbers([0.1, 1 / 3])
    '0.1 0.33333'
    """
    return " ".join(f"{value:.{digits}g}" for value in values)


def parse_numbers(cell: str) -> tuple[float, ...]:
    """What `numbers` wrote."""
    return tuple(map(float, cell.split()))


def run_row(run: Run, **more: Any) -> dict[str, Any]:
    config, result = run.config, run.result
    return {
        **more,
        "neuron": config.neuron,
        "seed": config.seed,
        "best_accuracy": result.best_accuracy,
        "best_epoch": result.best_epoch,
        "accuracy": result.accuracy,
        "train_accuracy": result.train_accuracy,
        "loss": result.loss,
        "lam": numbers(result.lam),
        "parameters": result.parameters,
        "n_train": result.n_train,
        "epochs": result.epochs,
        "run": result.identity,
    }
