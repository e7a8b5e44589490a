"""Closed formulas about the neuron: thresholds of uniqueness, Lipschitz constants, margins.

Each is checked against brute force, and where the paper's own is looser the page `docs/theory.md`
says by how much.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ibnn import sigma as sigmas
from ibnn._checks import is_number, shown
from ibnn._tensors import is_plain
from ibnn.coupling import Coupling, Dense, Uniform, Window, check_is_coupling
from ibnn.sigma import Sigma


def uniqueness_threshold(
    slope: float | Tensor = 10.0,
    coupling: Coupling | None = None,
    sigma: str | Sigma = "tanh",
) -> float | Tensor:
    """The largest lam with a proven unique solution: 1 / (slope * slope_bound * mu).

    mu is the largest eigenvalue of the Laplacian of the weights: 1 for uniform coupling (the
    default), at most 2 for any normalized one, which is the paper's 1 / (2 slope).

    Examples:
        >>> uniqueness_threshold(10.0)
        0.1

    Args:
        slope: steepness p of sigma, a number or one per channel.
        coupling: weights between the units of a row (default: uniform).
        sigma: the dendritic nonlinearity, a name or a `Sigma`; its `slope_bound` counts.
    """
    chosen = sigmas.resolve(sigma)
    if not chosen.certified:
        raise ValueError(f"sigma {chosen.name} is not certified: no threshold is proven for it")
    _check_slope(slope)
    if coupling is not None:
        check_is_coupling(coupling)
    return threshold_of(slope, coupling, chosen)


def threshold_of(slope: float | Tensor, coupling: Coupling | None, sigma: Sigma) -> float | Tensor:
    """`uniqueness_threshold` of what was checked before: no number of a slope is read, which may be
    on a GPU."""
    eigenvalue = 1.0 if coupling is None else coupling.largest_eigenvalue()
    steepest = slope * sigma.slope_bound * eigenvalue
    # weights that connect nobody: z = y, whatever lam
    return 1 / steepest if isinstance(steepest, Tensor) or steepest else math.inf


def energy_constants(slope: float = 10.0, sigma: str | Sigma = "tanh") -> tuple[float, float]:
    """The paper's A and K: S(x) <= A x^2 and S''(x) <= K, with S the primitive of sigma(slope x).

    K is the steepest slope of sigma; integrating it twice gives A = K / 2, which no smaller A
    replaces where sigma is steepest at 0, as every built-in one is.

    Examples:
        >>> energy_constants(10.0)
        (5.0, 10.0)
    """
    _check_slope(slope)
    steepest = slope * sigmas.resolve(sigma).slope_bound
    return steepest / 2, steepest


def paper_threshold(
    slope: float = 10.0,
    coupling: Coupling | None = None,
    sigma: str | Sigma = "tanh",
    units: int | Sequence[int] | None = None,
) -> float:
    """The paper's 1 / max(4A, 2K): 1 / (2 slope) for every built-in sigma, whatever the weights.

    Its weights are normalized; for others A and K count times the largest row sum, as its proof
    does; `units` is for `largest_row_sum`.

    Examples:
        >>> paper_threshold(10.0)
        0.05
    """
    growth, curvature = energy_constants(slope, sigma)
    rows = largest_row_sum(coupling, units)
    return 1 / (rows * max(4 * growth, 2 * curvature)) if rows else math.inf


def jacobian_range(
    lam: float, slope: float = 10.0, coupling: Coupling | None = None, sigma: str | Sigma = "tanh"
) -> tuple[float, float]:
    """Bounds on every eigenvalue of K_inf = J^-1, at any z: from 1 / (1 - lam / T) to 1 for
    lam <= 0, from 1 to 1 / (1 - lam / T) for 0 < lam < T, T the threshold of uniqueness.

    So lam < 0 contracts and 0 < lam < T expands in every direction but the mean of a row, which
    stays as it is.

    Examples:
        >>> jacobian_range(-0.1)
        (0.5, 1.0)
        >>> jacobian_range(0.05)
        (1.0, 2.0)
    """
    threshold = uniqueness_threshold(slope, coupling, sigma)
    fraction = lam / (threshold.item() if isinstance(threshold, Tensor) else threshold)
    if fraction >= 1:
        return -math.inf, math.inf
    other = 1 / (1 - fraction)
    return min(1.0, other), max(1.0, other)


def lipschitz_constant(
    lam: float, slope: float = 10.0, coupling: Coupling | None = None, sigma: str | Sigma = "tanh"
) -> float:
    """A Lipschitz constant of y -> z in l_2: 1 for lam <= 0, 1 / (1 - lam / T) up to the threshold
    T, infinite from there.

    Examples:
        >>> lipschitz_constant(0.05)
        2.0
    """
    return jacobian_range(lam, slope, coupling, sigma)[1]


def largest_move(lam: float, units: int | Sequence[int], coupling: Coupling | None = None) -> float:
    """How far |z - y| can be: |lam| sqrt((D^2 - 1) / (3D)) for uniform weights, for any other the
    paper's |lam| sqrt(D), times their `largest_row_sum`. `units` is D, or the shape of a row.

    With uniform weights B_i sums one term for every other unit, at most 1/D in absolute value and
    of opposite sign for the two units of a pair. |B| is largest when all units are far apart, where
    B_i = (2i - D - 1) / D by rank.

    Examples:
        >>> largest_move(-0.1, 1)
        0.0
        >>> round(largest_move(-0.1, 10_000), 3)  # the paper's: 10
        5.774
    """
    count = math.prod(units) if isinstance(units, Sequence) else int(units)
    if count < 1:
        raise ValueError(
            f"units must be a number of at least 1, or the shape of a row, got {shown(units)}"
        )
    if coupling is None or isinstance(coupling, Uniform):
        return abs(lam) * math.sqrt((count**2 - 1) / (3 * count))
    return abs(lam) * largest_row_sum(coupling, units) * math.sqrt(count)


def transferred_margin(margin: float, lam: float, units: int) -> float:
    """The margin left when a trained standard classifier with unit-norm head becomes an implicit
    one: at least M - 2 |lam| sqrt(D).

    Examples:
        >>> transferred_margin(1.0, -0.1, 4)
        0.6
    """
    return margin - 2 * abs(lam) * math.sqrt(units)


def sharper_margin(
    margin: float, lam: float, units: int | Sequence[int], coupling: Coupling | None = None
) -> float:
    """As `transferred_margin`, with the sharper bound on how far units move: M - 2 `largest_move`.

    Examples:
        >>> round(sharper_margin(1.0, -0.1, 4), 3)
        0.776
    """
    return margin - 2 * largest_move(lam, units, coupling)


def largest_row_sum(coupling: Coupling | None, units: int | Sequence[int] | None = None) -> float:
    """The largest sum of the weights of one unit, which bounds |B|: 1 for normalized weights, which
    a coupling has unless it brings a `largest_eigenvalue` of its own; those are summed.

    `units`, as in `largest_move`, is needed where such a coupling is not `Dense`.

    Examples:
        >>> largest_row_sum(Dense(torch.ones(3, 3)))
        3.0
    """
    if coupling is not None:
        check_is_coupling(coupling)
    if coupling is None or isinstance(coupling, Uniform) or type(coupling) is Window:
        return 1.0
    kind = type(coupling)
    if kind.largest_eigenvalue is Coupling.largest_eigenvalue:
        return 1.0  # or a solve would refuse them
    if isinstance(coupling, Dense):
        units = len(coupling.raw)
    shape = (units,) if isinstance(units, int) else units
    if shape is None or len(shape) != len(coupling.dims):
        raise ValueError(
            f"units={units!r} does not say the row sums of {kind.__name__}; expected the shape of "
            f"a row, one number for each of its dims {coupling.dims}"
        )
    weight = coupling.checked_weight(torch.float32, shape)
    weight = None if weight is None else weight.detach().cpu()
    # tanh has slope 1 at 0: of equal units P_1(z, 1) are the row sums, however they are stored
    equal = torch.zeros(1, math.prod(shape))
    return float(coupling.sums.pair_sum(equal, None, weight, 1, sigmas.TANH, shape).amax())


def _check_slope(slope: Any) -> None:
    if not isinstance(slope, Tensor):
        if not is_number(slope):
            raise TypeError(f"slope must be a number or a tensor, got {shown(slope)}")
        allowed = 0 < float(slope) < math.inf
    elif slope.is_meta or not is_plain():
        return  # it has no numbers to look at
    else:
        allowed = bool(((slope > 0) & slope.isfinite()).all())
    if not allowed:
        raise ValueError(f"slope must be positive and finite, got {shown(slope)}")
