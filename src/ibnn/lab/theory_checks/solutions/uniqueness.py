"""What can be proven about a solution after it was found: stable here, unique everywhere."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

import ibnn
from ibnn import sigma as sigmas
from ibnn import theory
from ibnn.lab.theory_checks.numerics.lanczos import STEPS, extreme_eigenvalues, groups
from ibnn.lab.theory_checks.numerics.operator import BiasOperator

LANCZOS_UNITS = 1024  # of the bound everywhere, whose sigma has no fast sums: J is 8 MB there


@dataclass(frozen=True)
class EigenvalueBounds:
    """The smallest eigenvalue of J, per row; `error` is how far Lanczos can be off."""

    at_solution: Tensor  # above 0: the solution is a strict minimum of the energy
    everywhere: Tensor  # a bound from below wherever a solution can be: above 0, it is the only one
    error: Tensor

    @property
    def stable(self) -> Tensor:
        """The solution is a strict minimum, hence isolated and smooth in y."""
        return self.at_solution > self.error

    @property
    def unique(self) -> Tensor:
        """No other solution exists for this input."""
        return self.everywhere > self.error


class SteepestWithin(ibnn.Sigma):
    """A sigma as steep as `base` can be once every argument has moved by up to `gap`.

    The identity up to the gap and `base` beyond: its slope at x is the largest of base's slopes
    within gap of x, as long as these fall away from 0.
    """

    def __init__(self, base: ibnn.Sigma, gap: float) -> None:
        self.base, self.gap = base, gap
        self.name = f"{base.name} within {gap:.3g}"
        self.slope_bound, self.bound = base.slope_bound, base.bound + gap

    def value(self, x: Tensor) -> Tensor:
        near = x.clamp(-self.gap, self.gap)
        return near + self.base.value(x - near)

    def primitive(self, x: Tensor) -> Tensor:
        near = x.clamp(-self.gap, self.gap)
        return near * (x - near / 2) + self.base.primitive(x - near)

    def derivative(self, x: Tensor, order: int) -> Tensor:
        if order != 1:
            return super().derivative(x, order)
        return self.base.derivative((x.abs() - self.gap).clamp(min=0), 1)


def certify_uniqueness(
    y: Tensor,
    z: Tensor,
    lam: float | Tensor,
    slope: float | Tensor = 10.0,
    *,
    coupling: ibnn.Coupling | None = None,
    sigma: str | ibnn.Sigma = "tanh",
    generator: torch.Generator | None = None,
) -> EigenvalueBounds:
    """Certificates of solutions z of y, tensors of one shape, row by row.

    |B| <= 1 for normalized weights, so every solution lies in the box |z - y| <= lam, where two
    units are never nearer than their y less 2 lam. J with the steepest slopes that leaves is a
    bound for all of them, and the energy is strictly convex on the box where that J is positive:
    then there is one solution, also for a lam above the threshold.

    >>> y = torch.tensor([-1.0, 1.0], dtype=torch.float64)  # far apart: hardly coupled
    >>> certify_uniqueness(y, ibnn.implicit_bias(y, 0.2), 0.2).unique  # the threshold is 0.1
    tensor([True])
    """
    generator = generator or torch.Generator().manual_seed(0)
    chosen = sigmas.resolve(sigma)
    at_solution = BiasOperator(z, lam, slope, coupling=coupling, sigma=chosen)
    smallest, error = smallest_eigenvalue(at_solution, generator)
    # for lam < 0 the energy is convex whatever z, if sigma never falls
    convex = at_solution.lam <= 0 if chosen.certified else at_solution.lam == 0
    if chosen not in sigmas.BUILT_IN or bool(convex.all()):
        # of a sigma of the user's own too little is known: it need not be steepest at 0
        everywhere = torch.where(convex, torch.ones_like(smallest), -torch.inf)
        return EigenvalueBounds(smallest, everywhere, error)
    strongest = float((torch.as_tensor(lam) * torch.as_tensor(slope)).max())
    rows = theory.largest_row_sum(coupling, at_solution.unit_shape)
    reach = 2 * strongest * chosen.bound * rows
    steepest = BiasOperator(y, lam, slope, coupling=coupling, sigma=SteepestWithin(chosen, reach))
    if steepest.units > LANCZOS_UNITS:
        # every product takes all pairs of units: Gershgorin needs one, as J has unit row sums
        # and, for lam >= 0, no negative number beside its diagonal
        everywhere, more = 2 * steepest.diagonal.amin(-1) - 1, torch.zeros_like(error)
    else:
        everywhere, more = smallest_eigenvalue(steepest, generator, as_matrices=steepest.all_pairs)
    return EigenvalueBounds(smallest, everywhere, torch.maximum(error, more))


def smallest_eigenvalue(
    operator: BiasOperator, generator: torch.Generator, *, as_matrices: bool = False
) -> tuple[Tensor, Tensor]:
    """The smallest eigenvalue of J of each row, and how far it can be off.

    J keeps the direction (1, ..., 1) as it is; Lanczos looks at the others. `as_matrices` writes J
    down first: worth it where a product has to look at every pair of units anyway.
    """
    ones = torch.ones(operator.rows, dtype=operator.z.dtype)
    if operator.units == 1:
        return ones, torch.zeros_like(ones)
    low, error = [], []
    longest = max(STEPS, operator.units) if as_matrices else STEPS
    for part in groups(operator.rows, operator.units, longest):
        own = operator.select(part)
        found = extreme_eigenvalues(
            _product(own.dense_jacobian()) if as_matrices else own.jacobian,
            own.rows,
            own.units,
            generator=generator,
            dtype=own.z.dtype,
            without_mean=True,
        )
        low.append(found.low.clamp(max=1))
        error.append(found.error)
    return torch.cat(low), torch.cat(error)


def _product(matrices: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda v: (matrices @ v.unsqueeze(-1)).squeeze(-1)
