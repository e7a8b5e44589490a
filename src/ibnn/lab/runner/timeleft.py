"""How long the remaining runs will take, judged by the epochs seen so far."""

from collections.abc import Hashable, Iterable, Sequence
from statistics import fmean

from ibnn.lab.models import network_kind
from ibnn.lab.training import Metrics, RunConfig
from ibnn.lab.training.epochs import epochs_done, epochs_since, total_epochs


class TimeLeft:
    """Runs of one shape are taken to need equally long epochs; other shapes the mean of all."""

    def __init__(self, configs: Iterable[RunConfig], workers: int = 1):
        self._workers = workers
        self._configs = {config.identity(): config for config in configs}
        self._left = {name: total_epochs(config) for name, config in self._configs.items()}
        self._seconds: dict[Hashable, list[float]] = {}

    def epoch(self, config: RunConfig, metrics: Metrics) -> None:
        """An epoch was trained and validated, after those since the validation before."""
        self._left[config.identity()] = total_epochs(config) - epochs_done(config, metrics)
        if metrics.stage == "training" or config.neuron == "standard":
            seconds = metrics.seconds / epochs_since(config, metrics)
            self._seconds.setdefault(_shape(config), []).append(seconds)

    def ended(self, config: RunConfig) -> None:
        """The run is done, or failed."""
        self._left.pop(config.identity(), None)

    def seconds(self) -> float | None:
        """Seconds until all runs are done, None before anything is known."""
        if not self._seconds:
            return None
        typical = {shape: fmean(times) for shape, times in self._seconds.items()}
        usual = fmean(typical.values())
        work = [
            left * typical.get(_shape(self._configs[name]), usual)
            for name, left in self._left.items()
        ]
        return spread_over(work, self._workers)


def spread_over(seconds: Sequence[float], workers: int) -> float:
    """The time of several runs, some at a time; none can be split, so the longest is a bound.

    >>> spread_over([1.0, 1.0, 4.0], 2)
    4.0
    """
    return max(max(seconds), sum(seconds) / workers) if seconds else 0.0


def _shape(config: RunConfig) -> Hashable:
    sizes = tuple(getattr(config, name) for name in network_kind(config.network).fields)
    network = (config.network, sizes)
    neuron = (config.neuron, config.coupling, config.solver)
    return config.dataset, config.share, config.n_train, config.hold_out, network, neuron
