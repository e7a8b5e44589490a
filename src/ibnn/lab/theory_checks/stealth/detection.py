"""How likely an attack stays undetected, for any number of verification examples and tolerance."""

import math
from collections.abc import Sequence

from torch import Tensor

TOLERANCE = 0.01  # of the gain: what the owner does not call a change


def undetected_probability(changes: Tensor, examples: int, tolerance: float) -> float:
    """Probability that `examples` drawn from the pool all change by at most `tolerance`.

    Exact, by counting: C(N - m, n) / C(N, n), with m of the N changes above the tolerance.

    >>> import torch
    >>> round(undetected_probability(torch.tensor([0.0, 0.0, 0.0, 1.0]), 2, 0.1), 6)
    0.5
    """
    pool = len(changes)
    if not 1 <= examples <= pool:
        raise ValueError(f"examples is {examples}, expected 1 to {pool}, the size of the pool")
    harmless = pool - int((changes.abs() > tolerance).sum())
    return math.comb(harmless, examples) / math.comb(pool, examples)


def expected_largest(changes: Tensor, examples: int) -> float:
    """Mean of the largest |change| among `examples` drawn from the pool, exact.

    >>> import torch
    >>> round(expected_largest(torch.tensor([1.0, 2.0, 3.0]), 2), 6)
    2.666667
    """
    ordered = changes.abs().double().sort().values.tolist()
    total = math.comb(len(ordered), examples)
    # the one of this rank is the largest if the others come from below it
    chances = (math.comb(rank, examples - 1) / total for rank in range(len(ordered)))
    return math.fsum(chance * value for chance, value in zip(chances, ordered, strict=True))


def counts(pool: int) -> Sequence[int]:
    """Numbers of verification examples to look at, up to the whole pool."""
    steps = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
    return [*(n for n in steps if n < pool), pool]
