"""Closed formulas about the neuron: thresholds of uniqueness, Lipschitz constants, margins."""

import math

from torch import Tensor

from ibnn import sigma as sigmas
from ibnn.coupling import Coupling
from ibnn.sigma import Sigma


def uniqueness_threshold(
    slope: float | Tensor = 10.0,
    coupling: Coupling | None = None,
    sigma: str | Sigma = "tanh",
) -> float | Tensor:
    """The largest lam with a proven unique solution: 1 / (slope * slope_bound * mu).

    mu is the largest eigenvalue of the Laplacian of the weights: 1 for uniform coupling (the
    default), at most 2 for any normalised one, which is the paper's 1 / (2 slope).

    >>> uniqueness_threshold(10.0)
    0.1
    """
    chosen = sigmas.resolve(sigma)
    if not chosen.certified:
        raise ValueError(f"sigma {chosen.name} is not certified: no threshold is proven for it")
    if not isinstance(slope, Tensor) and not (math.isfinite(slope) and slope > 0):
        raise ValueError(f"slope must be positive and finite, got {slope!r}")
    eigenvalue = 1.0 if coupling is None else coupling.largest_eigenvalue()
    steepest = slope * chosen.slope_bound * eigenvalue
    # weights that connect nobody: z = y, whatever lam
    return 1 / steepest if isinstance(steepest, Tensor) or steepest else math.inf


def paper_threshold(slope: float | Tensor = 10.0) -> float | Tensor:
    """The paper's 1 / max(4A, 2K) = 1 / (2 slope), for any normalised coupling.

    >>> paper_threshold(10.0)
    0.05
    """
    return 1 / (2 * slope)


def lipschitz_constant(
    lam: float, slope: float = 10.0, coupling: Coupling | None = None, sigma: str | Sigma = "tanh"
) -> float:
    """A Lipschitz constant of y -> z in l_2: 1 for lam <= 0, 1 / (1 - lam / T) up to the threshold
    T, infinite from there.

    >>> lipschitz_constant(0.05)
    2.0
    """
    if lam <= 0:
        return 1.0
    threshold = uniqueness_threshold(slope, coupling, sigma)
    share = lam / (threshold.item() if isinstance(threshold, Tensor) else threshold)
    return 1 / (1 - share) if share < 1 else math.inf


def transferred_margin(margin: float, lam: float, units: int) -> float:
    """The margin left when a trained standard classifier with unit-norm head becomes an implicit
    one: at least M - 2 |lam| sqrt(D).

    >>> transferred_margin(1.0, -0.1, 4)
    0.6
    """
    return margin - 2 * abs(lam) * math.sqrt(units)
