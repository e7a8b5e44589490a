"""The float64 brute-force reference: Newton on all pairs, O(D^2) and more, one row at a time.

It shares no code with the library, so that agreement between the two means something.

    z_i + lam * sum_k w_ik sigma(z_k - z_i) = y_i,        sigma(x) = s(slope * x)

`weights=None` stands for the uniform coupling w_ik = 1/D; otherwise it is a symmetric D x D array.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.blas import dsymv

EPS = float(np.finfo(np.float64).eps)


def _by_torch(function: Callable[[torch.Tensor], torch.Tensor]):
    """An elementary function of float64 arrays: torch has the digits of numpy and scipy (tested),
    and takes 6 ns for a tanh and 4 for an erf where these take 13 and 19."""
    return lambda x: function(torch.from_numpy(np.asarray(x))).numpy()


_tanh, _arctan, _erf = map(_by_torch, (torch.tanh, torch.atan, torch.erf))

# Each s has slope 1 at 0 and range (-1, 1): (value, derivative, primitive with S(0) = 0).
_ARCTAN = math.pi / 2
_ERF = math.sqrt(math.pi) / 2
SIGMAS = {
    "tanh": (
        _tanh,
        lambda x: 1 - _tanh(x) ** 2,
        lambda x: np.abs(x) + np.log1p(np.exp(-2 * np.abs(x))) - math.log(2),
    ),
    "hardtanh": (
        lambda x: np.clip(x, -1, 1),
        lambda x: (np.abs(x) < 1).astype(np.float64),
        lambda x: np.where(np.abs(x) < 1, x**2 / 2, np.abs(x) - 0.5),
    ),
    "arctan": (
        lambda x: _arctan(_ARCTAN * x) / _ARCTAN,
        lambda x: 1 / (1 + (_ARCTAN * x) ** 2),
        lambda x: (x * _arctan(_ARCTAN * x) - np.log1p((_ARCTAN * x) ** 2) / math.pi) / _ARCTAN,
    ),
    "erf": (
        lambda x: _erf(_ERF * x),
        lambda x: np.exp(-((_ERF * x) ** 2)),
        lambda x: x * _erf(_ERF * x) + 2 / math.pi * np.expm1(-((_ERF * x) ** 2)),
    ),
}

# Pairs in one block: its few arrays of 8 bytes a pair stay in a second-level cache of 512 KiB
# or more, and torch keeps to one thread.
BLOCK = 16384


def _blocks(units: int) -> Iterator[tuple[int, int]]:
    """Rows i to j of the lower half of a D x D table, whose columns end at j."""
    start = 0
    while start < units:
        # (j - i) j <= BLOCK
        end = int((start + math.sqrt(start**2 + 4 * BLOCK)) / 2)
        end = min(units, max(start + 1, end))
        yield start, end
        start = end


@dataclass(frozen=True, eq=False)
class Pairs:
    """What all pairs of a row sum to at z; each is met once, since sigma is odd and w symmetric."""

    bias: np.ndarray  # B_i
    by_slope: np.ndarray  # dB_i/dslope at a fixed z
    jacobian: np.ndarray  # J = I + lam DB in its lower half, anything above it
    lam: float

    def solve(self, b: np.ndarray, scale: np.ndarray | float = 1.0, digits: float = 1e-13):
        """x with J x = b, to a residual of `digits` of b, both in units of `scale`."""
        x = _conjugate_gradients(self.jacobian, b, scale, digits)
        if x is None:
            # the upper half of the transpose is the lower half, in the order LAPACK works in
            x = cho_solve(cho_factor(self.jacobian.T, check_finite=False), b, check_finite=False)
        return x

    def gradient(self, g: np.ndarray) -> tuple[np.ndarray, float, float]:
        """(dL/dy, dL/dlam, dL/dslope) of L = g . z, where z is the solution."""
        v = self.solve(g)  # J is symmetric
        return v, float(-v @ self.bias), float(-self.lam * (v @ self.by_slope))


def pairs_row(z, lam, slope, weights=None, sigma="tanh") -> Pairs:
    value, derivative, _ = SIGMAS[sigma]
    units = len(z)
    bias, by_slope, diagonal = np.zeros((3, units))
    jacobian = np.empty((units, units))
    for i, j in _blocks(units):
        w = 1 / units if weights is None else weights[i:j, :j]
        apart = z[None, :j] - z[i:j, None]
        x = slope * apart
        values = value(x)
        slopes = 1 - values * values if sigma == "tanh" else derivative(x)
        values *= w
        slopes *= w
        np.fill_diagonal(slopes[:, i:], 0.0)
        apart *= slopes
        np.multiply(slopes, lam * slope, out=jacobian[i:j, :j])
        for sums, table, sign in ((bias, values, -1), (by_slope, apart, -1), (diagonal, slopes, 1)):
            sums[i:j] += table.sum(axis=1)
            sums[:i] += sign * table[:, :i].sum(axis=0)
    np.fill_diagonal(jacobian, 1 - lam * slope * diagonal)
    return Pairs(bias, by_slope, jacobian, lam)


def _conjugate_gradients(jacobian, b, scale, digits):
    """x with J x = b by J's lower half, or None where a factorisation of J is the faster way."""
    # Measured: a Cholesky factorisation takes as long as 26 products at 256 units and 70 at 512
    # and more, and Python as long as 5 at 256.
    if not b.any():
        return np.zeros_like(b)
    if len(b) < 256:
        return None
    budget = min(70, len(b) // 16)
    times_j = partial(dsymv, 1.0, jacobian.T)  # reads the upper half of the transpose
    inverse = 1 / np.diagonal(jacobian)
    x, residual, direction, before = np.zeros_like(b), b.copy(), None, 1.0
    enough = digits * np.linalg.norm(b / scale)
    for _ in range(budget):
        better = inverse * residual
        now = residual @ better
        direction = better if direction is None else better + now / before * direction
        image = times_j(direction)
        step = now / (direction @ image)
        x += step * direction
        residual -= step * image
        before = now
        if np.linalg.norm(residual / scale) <= enough:
            break
    # what it has summed up is not believed
    true = np.linalg.norm((b - times_j(x)) / scale)
    return x if true <= 2 * enough else None


def _differences(z, slope):
    return slope * (z[None, :] - z[:, None])


def bias_row(z, slope, weights=None, sigma="tanh"):
    """B_i = sum_k w_ik sigma(z_k - z_i)."""
    return pairs_row(z, 0.0, slope, weights, sigma).bias


def residual_row(z, y, lam, slope, weights=None, sigma="tanh"):
    """z + lam B(z) - y: zero at the solution, and the gradient of the energy."""
    return z - y + lam * bias_row(z, slope, weights, sigma)


def energy_row(z, y, lam, slope, weights=None, sigma="tanh"):
    """E = |z - y|^2 / 2 - lam/2 * sum_ij w_ij S(z_j - z_i), with S' = sigma and S(0) = 0."""
    _, _, primitive = SIGMAS[sigma]
    pairs = primitive(_differences(z, slope))
    pairs = pairs.mean(axis=1) if weights is None else (weights * pairs).sum(axis=1)
    return 0.5 * np.sum((z - y) ** 2) - 0.5 * lam * pairs.sum() / slope


def jacobian_row(z, lam, slope, weights=None, sigma="tanh"):
    """J = d residual / dz, the Hessian of the energy: symmetric, and row sums are 1."""
    lower = np.tril(pairs_row(z, lam, slope, weights, sigma).jacobian)
    return lower + np.tril(lower, -1).T


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

    Newton's own steps are taken as long as each makes the residual smaller, as they do near the
    solution. From the first that does not, the energy decides: Newton's direction is one of
    descent of the strictly convex energy, so Armijo's rule makes it converge from anywhere;
    hardtanh too, whose energy is C1 and piecewise quadratic and whose generalised Jacobian is as
    positive definite as the others'. Once the energy cannot tell two points apart any more (its
    digits are half of those of z), the residual decides again.
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
    # A row narrower than 1 is solved to the digits of its spread, not of 1.
    scale = min(1.0, np.ptp(y)) + np.abs(y - centre)
    # The sums carry rounding errors of size |lam|; z is rounded itself, which J makes visible.
    enough = 1e-13 * (1 + abs(lam)) + EPS * abs(lam) * slope
    at, near = _at(z, *problem), True
    for _ in range(max_steps):
        worst = np.max(np.abs(at.residual) / scale)
        if worst <= EPS:
            break
        # a far unit at its last digit has nothing to say to the others
        wrong = np.where(np.abs(at.residual) <= EPS * scale, 0.0, at.residual)
        direction = -at.pairs.solve(wrong, scale, digits=1e-6)
        moved = None
        if near or worst <= enough:
            moved = _smaller_residual(at, direction, problem, scale, halvings=1)
        if moved is None and worst > enough:
            near = False
            moved = _armijo(at, direction, problem)
            moved = moved or _smaller_residual(at, direction, problem, scale, halvings=20)
        if moved is None:
            break
        at = moved

    worst = np.max(np.abs(at.residual) / scale)
    if worst > enough:
        raise ArithmeticError(f"the oracle is stuck at a relative residual of {worst:.1e}")
    return at.z + centre


@dataclass(frozen=True, eq=False)
class _At:
    """A place on the way to the solution."""

    z: np.ndarray
    residual: np.ndarray  # the gradient of the energy
    pairs: Pairs


def _at(z, y, lam, slope, weights, sigma) -> _At:
    pairs = pairs_row(z, lam, slope, weights, sigma)
    return _At(z, z - y + lam * pairs.bias, pairs)


def _armijo(at, direction, problem) -> _At | None:
    """The first of z + t d, t = 1, 1/2, ..., whose energy falls by enough to be seen."""
    energy, slope_along = energy_row(at.z, *problem), at.residual @ direction
    visible = 64 * EPS * (1 + abs(energy))
    for halvings in range(50):
        step = 0.5**halvings
        if -step * slope_along < visible:
            return None
        if energy_row(at.z + step * direction, *problem) <= energy + 1e-4 * step * slope_along:
            return _at(at.z + step * direction, *problem)
    return None


def _smaller_residual(at, direction, problem, scale, halvings) -> _At | None:
    """The first of z + t d, t = 1, 1/2, ..., whose residual is smaller.

    Each unit counts by its own digits: the rounding of one at 1e30 would hide all the others.
    """
    size = np.linalg.norm(at.residual / scale)
    for halving in range(halvings):
        trial = _at(at.z + 0.5**halving * direction, *problem)
        if np.linalg.norm(trial.residual / scale) < (1 - 0.1 * 0.5**halving) * size:
            return trial
    return None


def gradient_row(y, lam, slope, g, weights=None, sigma="tanh", z=None):
    """(dL/dy, dL/dlam, dL/dslope) of L = g . z; pass z if it is already known."""
    z = solve_row(y, lam, slope, weights, sigma) if z is None else z
    return pairs_row(z, lam, slope, weights, sigma).gradient(g)


def weight_gradient_row(y, lam, slope, g, weights, sigma="tanh", z=None):
    """dL/dw_ik of L = g . z, every entry taken as free: add its transpose for symmetric w."""
    z = solve_row(y, lam, slope, weights, sigma) if z is None else z
    v, _, _ = gradient_row(y, lam, slope, g, weights, sigma, z)
    value, _, _ = SIGMAS[sigma]
    return -lam * v[:, None] * value(_differences(z, slope))


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
