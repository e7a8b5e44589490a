"""Medians of interleaved repetitions: what slows the machine down slows every candidate down."""

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Times:
    """Seconds of one candidate, one entry per round."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def milliseconds(self) -> float:
        return 1e3 * self.median

    @property
    def spread(self) -> float:
        """The distance between the quartiles over the median: how noisy the machine is."""
        if len(self.seconds) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return (high - low) / self.median


def interleave(
    candidates: Mapping[str, Callable[[], object]],
    rounds: tuple[int, int],
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Times]:
    """Runs A B C A B C ... and gives the times of each.

    `rounds` is the fewest and the most rounds; between them it stops once `seconds` are used up.
    One round before the first is not counted.

    >>> interleave({"nothing": lambda: None}, rounds=(3, 3), seconds=0)["nothing"].median < 1
    True
    """
    fewest, most = rounds
    if not 1 <= fewest <= most:
        raise ValueError(f"rounds is {rounds}, expected (fewest, most) with 1 <= fewest <= most")
    for candidate in candidates.values():
        candidate()
    taken: dict[str, list[float]] = {name: [] for name in candidates}
    gc.collect()
    begin = clock()
    for done in range(most):
        if done >= fewest and clock() - begin > seconds:
            break
        for name, candidate in candidates.items():
            start = clock()
            candidate()
            taken[name].append(clock() - start)
    return {name: Times(tuple(values)) for name, values in taken.items()}


def ratio(times: Mapping[str, Times], of: str, to: str) -> float:
    """The median of one candidate as a multiple of another's, of the same run."""
    return times[of].median / times[to].median
