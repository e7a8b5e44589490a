"""The float64 brute-force reference: dense O(D^2) Newton, one row at a time.

It shares no code with the library, so that agreement between the two means something.

    z_i + lam * sum_k w_ik sigma(z_k - z_i) = y_i,        sigma(x) = s(slope * x)

`weights=None` stands for the uniform coupling w_ik = 1/D; otherwise it is a symmetric D x D array.
"""

import itertools
import math

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import erf

EPS = float(np.finfo(np.float64).eps)

# Each s has slope 1 at 0 and range (-1, 1): (value, derivative, primitive with S(0) = 0).
_ARCTAN = math.pi / 2
_ERF = math.sqrt(math.pi) / 2
SIGMAS = {
    "tanh": (
        np.tanh,
        lambda x: 1 - np.tanh(x) ** 2,
        lambda x: np.abs(x) + np.log1p(np.exp(-2 * np.abs(x))) - math.log(2),
    ),
    "hardtanh": (
        lambda x: np.clip(x, -1, 1),
        lambda x: (np.abs(x) < 1).astype(np.float64),
        lambda x: np.where(np.abs(x) < 1, x**2 / 2, np.abs(x) - 0.5),
    ),
    "arctan": (
        lambda x: np.arctan(_ARCTAN * x) / _ARCTAN,
        lambda x: 1 / (1 + (_ARCTAN * x) ** 2),
        lambda x: (x * np.arctan(_ARCTAN * x) - np.log1p((_ARCTAN * x) ** 2) / math.pi) / _ARCTAN,
    ),
    "erf": (
        lambda x: erf(_ERF * x),
        lambda x: np.exp(-((_ERF * x) ** 2)),
        lambda x: x * erf(_ERF * x) + 2 / math.pi * np.expm1(-((_ERF * x) ** 2)),
    ),
}


def _differences(z, slope):
    return slope * (z[None, :] - z[:, None])


def _weighted(weights, values):
    """sum_k w_ik values_ik."""
    return values.mean(axis=1) if weights is None else (weights * values).sum(axis=1)


def bias_row(z, slope, weights=None, sigma="tanh"):
    """B_i = sum_k w_ik sigma(z_k - z_i)."""
    value, _, _ = SIGMAS[sigma]
    return _weighted(weights, value(_differences(z, slope)))


def residual_row(z, y, lam, slope, weights=None, sigma="tanh"):
    """z + lam B(z) - y: zero at the solution, and the gradient of the energy."""
    return z - y + lam * bias_row(z, slope, weights, sigma)


def energy_row(z, y, lam, slope, weights=None, sigma="tanh"):
    """E = |z - y|^2 / 2 - lam/2 * sum_ij w_ij S(z_j - z_i), with S' = sigma and S(0) = 0."""
    _, _, primitive = SIGMAS[sigma]
    pairs = _weighted(weights, primitive(_differences(z, slope))).sum() / slope
    return 0.5 * np.sum((z - y) ** 2) - 0.5 * lam * pairs


def jacobian_row(z, lam, slope, weights=None, sigma="tanh"):
    """J = d residual / dz, the Hessian of the energy: symmetric, and row sums are 1."""
    _, derivative, _ = SIGMAS[sigma]
    jacobian = derivative(_differences(z, slope))
    jacobian *= lam * slope * (1 / len(z) if weights is None else weights)
    np.fill_diagonal(jacobian, 0.0)
    np.fill_diagonal(jacobian, 1.0 - jacobian.sum(axis=1))
    return jacobian


def threshold(slope, weights=None):
    """The largest lam below which the energy is strictly convex: 1 / (slope * mu)."""
    if weights is None:
        return 1 / slope
    laplacian = np.diag(weights.sum(axis=1)) - weights
    mu = np.linalg.eigvalsh(laplacian)[-1]
    return math.inf if mu <= EPS else 1 / (slope * mu)


def solve_row(y, lam, slope, weights=None, sigma="tanh", max_steps=500, start=None):
    """The solution z for lam below the threshold, as exact as float64 allows.

    There is one solution only, so `start` changes how long it takes and not what is found.

    Newton's direction is a descent direction of the strictly convex energy, so Armijo's rule
    makes it converge from anywhere; hardtanh too, whose energy is C1 and piecewise quadratic and
    whose generalised Jacobian is as positive definite as the others'. Once the energy cannot
    tell two points apart any more (its digits are half of those of z), the residual decides.
    """
    y = np.asarray(y, dtype=np.float64)
    if not np.isfinite(y).all():
        raise ValueError("y must be finite")
    if lam > 0 and len(y) and lam >= threshold(slope, weights):
        raise ValueError(f"lam = {lam} is not below the threshold {threshold(slope, weights)}")
    if lam == 0 or len(y) < 2 or np.ptp(y) == 0:
        return y.copy()

    # Working around the centre keeps the digits of rows whose mean dwarfs their spread. It is that
    # of the densest quarter: the median may be a far unit, where half a row is.
    ordered, quarter = np.sort(y), 1 + len(y) // 4
    densest = np.argmin(ordered[quarter:] - ordered[:-quarter])
    centre = ordered[densest + quarter // 2]
    problem = (y - centre, lam, slope, weights, sigma)
    z = (y if start is None else np.asarray(start, dtype=np.float64)) - centre
    gradient = residual_row(z, *problem)
    # A row narrower than 1 is solved to the digits of its spread, not of 1.
    scale = min(1.0, np.ptp(y)) + np.abs(y - centre)
    for _ in range(max_steps):
        if np.max(np.abs(gradient) / scale) <= EPS:
            break
        direction = -cho_solve(
            cho_factor(jacobian_row(z, lam, slope, weights, sigma), overwrite_a=True), gradient
        )
        moved = _armijo(z, direction, gradient, problem)
        if moved is None:
            moved = _smaller_residual(z, direction, gradient, problem, scale)
        if moved is None:
            break
        z, gradient = moved

    # The sums carry rounding errors of size |lam|; z is rounded itself, which J makes visible.
    worst = np.max(np.abs(gradient) / scale)
    if worst > 1e-13 * (1 + abs(lam)) + EPS * abs(lam) * slope:
        raise ArithmeticError(f"the oracle is stuck at a relative residual of {worst:.1e}")
    return z + centre


def _armijo(z, direction, gradient, problem):
    """The first of z + t d, t = 1, 1/2, ..., whose energy falls by enough to be seen."""
    energy, slope_along = energy_row(z, *problem), gradient @ direction
    visible = 64 * EPS * (1 + abs(energy))
    for halvings in range(50):
        step = 0.5**halvings
        if -step * slope_along < visible:
            return None
        if energy_row(z + step * direction, *problem) <= energy + 1e-4 * step * slope_along:
            return z + step * direction, residual_row(z + step * direction, *problem)
    return None


def _smaller_residual(z, direction, gradient, problem, scale):
    """The first of z + t d whose residual is smaller, or None: z is then at rounding level.

    Each unit counts by its own digits: the rounding of one at 1e30 would hide all the others.
    """
    for halvings in range(20):
        trial = z + 0.5**halvings * direction
        residual = residual_row(trial, *problem)
        size = np.linalg.norm(gradient / scale)
        if np.linalg.norm(residual / scale) < (1 - 0.1 * 0.5**halvings) * size:
            return trial, residual
    return None


def gradient_row(y, lam, slope, g, weights=None, sigma="tanh", z=None):
    """(dL/dy, dL/dlam, dL/dslope) of L = g . z; pass z if it is already known."""
    z = solve_row(y, lam, slope, weights, sigma) if z is None else z
    v = _adjoint(z, lam, slope, g, weights, sigma)
    by_slope = bias_by_slope_row(z, slope, weights, sigma)
    return v, -v @ bias_row(z, slope, weights, sigma), -lam * (v @ by_slope)


def bias_by_slope_row(z, slope, weights=None, sigma="tanh"):
    """dB_i/dslope at a fixed z."""
    _, derivative, _ = SIGMAS[sigma]
    differences = z[None, :] - z[:, None]
    return _weighted(weights, differences * derivative(slope * differences))


def weight_gradient_row(y, lam, slope, g, weights, sigma="tanh", z=None):
    """dL/dw_ik of L = g . z, every entry taken as free: add its transpose for symmetric w."""
    z = solve_row(y, lam, slope, weights, sigma) if z is None else z
    v = _adjoint(z, lam, slope, g, weights, sigma)
    value, _, _ = SIGMAS[sigma]
    return -lam * v[:, None] * value(_differences(z, slope))


def _adjoint(z, lam, slope, g, weights, sigma):
    """v with J v = g (J is symmetric)."""
    return cho_solve(cho_factor(jacobian_row(z, lam, slope, weights, sigma)), g)


def window_weights(shape, kernel_size, profile="box", std=None):
    """The D x D weights of a neighbourhood on a map of `shape` (D = its number of units).

    The taps, box or gaussian (`std` in units of the map), sum to 1 over the full kernel. A tap
    that falls outside the map leaves its mass on w_ii, where sigma(0) = 0 makes it harmless: the
    weights stay symmetric with row sums 1.
    """
    kernel_size = (kernel_size,) * len(shape) if isinstance(kernel_size, int) else kernel_size
    if any(k % 2 == 0 for k in kernel_size):
        raise ValueError(f"kernel_size must be odd, not {kernel_size}: an even one has no centre")
    offsets = list(itertools.product(*(range(-(k // 2), k // 2 + 1) for k in kernel_size)))
    if profile == "box":
        taps = np.ones(len(offsets))
    elif profile == "gaussian" and std is not None:
        taps = np.array(
            [math.exp(-0.5 * sum(o * o for o in offset) / std**2) for offset in offsets]
        )
    else:
        raise ValueError(f"profile must be 'box', or 'gaussian' with a std, not {profile!r}")
    taps /= taps.sum()

    weights = np.zeros((math.prod(shape),) * 2)
    for i, position in enumerate(itertools.product(*map(range, shape))):
        for offset, tap in zip(offsets, taps, strict=True):
            neighbour = tuple(p + o for p, o in zip(position, offset, strict=True))
            inside = all(0 <= n < size for n, size in zip(neighbour, shape, strict=True))
            k = np.ravel_multi_index(neighbour, shape) if inside else i
            weights[i, k] += tap
    return weights
