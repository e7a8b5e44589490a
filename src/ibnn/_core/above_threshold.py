"""Above the threshold: the minimum of the energy that descent from z = y reaches.

For lam > 0 the energy is |z - y|^2 / 2 minus a convex sum over pairs. The step z <- y - lam B(z)
minimizes the bound that comes of replacing this sum by its tangent at z, which touches the energy
there and lies above it elsewhere: so no step climbs, however large lam is. Descent by these steps
says which of several minima is found. Uniform weights; an engine may take a shorter way to the same
minimum (`Engine.descends`), and this one is taken where none does.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ibnn._core import deferred_failures
from ibnn._core.fallback import has_positive_pairs, pair_sum
from ibnn._core.options import SolveOptions
from ibnn._tensors import is_plain

# units of the longest row whose J is written out to see whether it is positive definite
_MAX_DIRECT_UNITS = 64
# Normal rows of 64 to 1024 units, std 0.1 to 1, slope 10, lam up to 3 thresholds take 4 to 40. What
# has not settled by then is left to the solver, from where it stands.
MOST_STEPS = 80


class DescentResult(NamedTuple):
    """z, and of each row the residual before the last step, the steps, and whether it settled."""

    z: Tensor
    residual: Tensor
    steps: Tensor
    settled: Tensor


def descend(
    y: Tensor,
    strength: Tensor,
    slope: Tensor,
    atol: Tensor,
    units: Sequence[int],
    how: SolveOptions,
) -> DescentResult:
    """Rows of y before the slope, all of them finite; atol is of slope * z."""
    origin = torch.zeros_like(y[:, :1]).clamp(y.amin(-1, keepdim=True), y.amax(-1, keepdim=True))
    p, c = slope.unsqueeze(-1).to(y.dtype), strength.unsqueeze(-1).to(y.dtype)
    scaled = (y - origin) * p
    z, moved = scaled.clone(), torch.zeros_like(y[:, 0])  # one step alone says nothing of a rate
    steps = torch.zeros(len(y), dtype=torch.int32, device=y.device)
    settled = torch.zeros(len(y), dtype=torch.bool, device=y.device)
    going = torch.arange(len(y), device=y.device)
    rounding = 2 * torch.finfo(y.dtype).eps * scaled.abs().amax(-1)
    for _ in range(MOST_STEPS):
        some = len(going) < len(y)
        now, target, k = (z[going], scaled[going], c[going]) if some else (z, scaled, c)
        after = torch.addcmul(target, k, pair_sum(now, None, None, 0, units, how), value=-1)
        change = (after - now).abs().amax(-1)
        # steps shrink like a geometric series near the end: what is left is the sum of its rest
        rate = (change / moved[going]).clamp(0.3, 1)
        done = (change * rate <= (1 - rate) * 0.5 * atol[going]) | (change <= rounding[going])
        z[going], moved[going] = after, change
        steps[going] += 1
        settled[going] = done
        going = going[~done]
        if not len(going):
            break
    return DescentResult(origin + z / p, moved, steps, settled)


def is_unique(
    z: Tensor,
    lam: Tensor,
    slope: Tensor,
    weight: Tensor | None,
    units: Sequence[int],
    how: SolveOptions,
) -> Tensor:
    """Whether J is proven positive definite at each row of z, so that it is a stable minimum
    with no other solution nearby.

    J = diag(1 - c d) + c K, d_i = sum_k K_ik, K_ik = w_ik s'(z_k - z_i). Where K is positive
    semidefinite c d < 1 is enough; else c d < 1/2 is, by Gershgorin. What this leaves open is
    decided by J itself in short rows of uniform weights. Where no number can be read, only a bound
    of J at every z counts. Of an uncertified sigma nothing is proven.
    """
    if not how.sigma.certified:
        return lam == 0
    if not z.shape[-1]:
        return torch.ones_like(lam, dtype=torch.bool)
    strength = lam * slope
    steepest = strength * how.sigma.slope_bound
    if not is_plain() or deferred_failures.is_asynchronous(z):
        return (steepest <= 0) | (steepest * how.sums.unread_bound(weight) < 1)
    if not bool((lam > 0).any()):  # nor a bound of the weights' eigenvalues to look for
        return torch.ones_like(lam, dtype=torch.bool)
    proven = steepest * how.sums.eigenvalue_bound(weight) < 1
    if bool(proven.all()):
        return proven
    scaled = z * slope.unsqueeze(-1)
    densest = pair_sum(scaled, None, weight, 1, units, how).amax(-1)
    proven |= strength * densest < (1 if has_positive_pairs(how) else 0.5)
    if how.is_uniform and z.shape[-1] <= _MAX_DIRECT_UNITS:
        for rows in (~proven & scaled.isfinite().all(-1)).nonzero().squeeze(-1).split(256):
            proven[rows] = _is_definite(scaled[rows].double(), strength[rows].double(), how)
    return proven


def _is_definite(z: Tensor, strength: Tensor, how: SolveOptions) -> Tensor:
    """Whether J has no eigenvalue below what rounding may hide; all pairs of a few short rows."""
    pairs = how.sigma.derivative(z.unsqueeze(-2) - z.unsqueeze(-1), 1) / z.shape[-1]
    jacobian = strength[:, None, None] * (pairs - torch.diag_embed(pairs.sum(-1)))
    jacobian.diagonal(dim1=-2, dim2=-1).add_(1 - 1e-12)
    return torch.linalg.cholesky_ex(jacobian).info == 0
