"""The system: the equation of one batch, z + c B(z) = y, and what solvers may ask of it.

Rows of units, and units of z in which sigma has slope 1: `y` is slope * y, `strength` is
lam * slope. A solver sees nothing else, so it never knows which coupling it serves.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ibnn.coupling.sums import Products

# P_n(z, a) with everything else bound: (z, a, order) -> sums
PairSum = Callable[[Tensor, Tensor | None, int], Tensor]
# v -> P_1(z, v), for any z
ProductsAt = Callable[[Tensor], Products]
# J(z)^-1 g with everything else bound: (z, g, strength) -> v
LinearSolve = Callable[[Tensor, Tensor, Tensor], Tensor]

# the fraction of a row's spread to which z is found, for gradients within 1e-4 and 1e-8
RESOLUTION = {torch.float32: 1e-5, torch.float64: 1e-9}
# how many times the accuracy aimed at the one promised is, with a factor of 2 to spare
LOOSER = {torch.float32: 2.5, torch.float64: 50.0}
# the relative error of a gradient that is promised, and above which it is reported
GRADIENT_ERROR = {torch.float32: 1e-4, torch.float64: 1e-8}


@dataclass(frozen=True)
class System:
    y: Tensor  # (rows, units)
    strength: Tensor  # (rows, 1)
    atol: Tensor  # (rows, 1): accuracy wanted of z
    rtol: float
    pair_sum: PairSum
    # a bound on the largest eigenvalue of the Laplacian of w, times the steepest slope of sigma
    eigenvalue: float
    self_weight: float | Tensor  # w_ii
    # whether sigma may fall: where it does, J may be indefinite for lam < 0, too
    falls: bool = False
    # where that may be quicker than a sum for every v
    products: ProductsAt | None = None
    # J(z)^-1 g, where autograd records the solver's steps
    differentiable_solve: LinearSolve | None = None

    @property
    def differentiable(self) -> bool:
        return self.differentiable_solve is not None

    def bias(self, z: Tensor) -> Tensor:
        """B(z)_i = sum_k w_ik sigma(z_k - z_i)."""
        return self.pair_sum(z, None, 0)

    def residual(self, z: Tensor) -> Tensor:
        """The gradient of the energy, zero at the solution."""
        return z - self.y + self.strength * self.bias(z)

    def energy(self, z: Tensor) -> Tensor:
        """(rows, 2): the paper's E_lambda, and the size of the terms it is the difference of."""
        pairs = self.strength.squeeze(-1) * self.pair_sum(z, None, -1).sum(-1)
        distance = (z - self.y).square().sum(-1)
        return torch.stack([distance - pairs, distance + pairs.abs()], -1) / 2

    def linearised(self, z: Tensor) -> tuple[Callable[[Tensor], Tensor], Tensor]:
        """J(z) as a function of v, J v = v + c (P_1(z, v) - v P_1(z, 1)), and its diagonal."""
        product = self.products(z) if self.products else lambda v: self.pair_sum(z, v, 1)
        kept = 1 - self.strength * product(None)

        def jacobian(v: Tensor) -> Tensor:
            return kept * v + self.strength * product(v)

        return jacobian, kept + self.strength * self.self_weight

    def excess(self, z: Tensor, residual: Tensor) -> Tensor:
        """Per row, the worst residual as a multiple of the one allowed: solved at 1 or less."""
        eps, tiny = torch.finfo(self.y.dtype).eps, torch.finfo(self.y.dtype).tiny
        # no residual can be asked below the rounding of its own terms; B is at most 1, and at
        # most the spread of z
        reach = torch.where(self.convex().unsqueeze(-1), _spread(self.y) / self.margin, 1)
        reach = reach.clamp(max=1)
        floor = 4 * eps * (self.y.abs() + self.strength.abs() * reach)
        wanted = self.margin * self._accuracy(z)
        # where that is more than was promised, the row is not solved
        floor = torch.minimum(floor, wanted * LOOSER[self.y.dtype])
        allowed = torch.maximum(wanted, floor).clamp_min(tiny)
        return (residual.abs() / allowed).amax(-1)

    def excess_of_step(self, z: Tensor, residual: Tensor, step: Tensor) -> Tensor:
        """As `excess`, from the Newton step that the residual asks for.

        Where J is stiff the rounding of z alone leaves a residual above the one allowed, but J
        takes it back: the step is the error itself, wherever J hardly changes along it (sigma
        varies over 1, and residual / margin bounds the way to the solution)."""
        eps, tiny = torch.finfo(self.y.dtype).eps, torch.finfo(self.y.dtype).tiny
        allowed = torch.maximum(self._accuracy(z), eps * self.y.abs()).clamp_min(tiny)
        multiple = (step.abs() / allowed).amax(-1)
        near = residual.abs().amax(-1) <= 0.1 * self.margin.squeeze(-1)
        return torch.where(near, multiple, torch.inf)

    def _accuracy(self, z: Tensor) -> Tensor:
        """The error allowed in z: atol, or less where the units of a row are closer together than
        it can resolve, since gradients are made of differences; and rtol of y."""
        if not self.rtol:
            return self.atol
        # above the threshold units part however close they are in y: only z says how far
        width = torch.where(
            self.convex().unsqueeze(-1), _spread(self.y) / self.stiffest, _spread(z)
        )
        near = RESOLUTION[self.y.dtype] * width
        absolute = torch.where(near > 0, torch.minimum(self.atol, near), self.atol)
        return absolute + self.rtol * self.y.detach().abs()

    @property
    def margin(self) -> Tensor:
        """(rows, 1): the smallest eigenvalue J can have; a residual r is an error <= r / margin."""
        margin = 1 - self._softening
        # nothing is known above the threshold
        return torch.where(self.convex().unsqueeze(-1), margin.clamp(1e-9, 1), 0.05)

    @property
    def _softening(self) -> Tensor:
        """(rows, 1): by how much pairs can lower an eigenvalue of J, where it is above 0."""
        return (self.strength.abs() if self.falls else self.strength) * self.eigenvalue

    @property
    def stiffest(self) -> Tensor:
        """(rows, 1): the largest eigenvalue J can have; z is narrower than y by that at most."""
        return 1 + (-self.strength.detach()).clamp(min=0) * self.eigenvalue

    def convex(self) -> Tensor:
        """Per row, whether its energy is proven strictly convex."""
        return (self._softening < 1).squeeze(-1)

    def condition_bound(self) -> Tensor:
        """Per row, a bound on the condition number of J anywhere (where the row is convex)."""
        return (self.stiffest / self.margin).squeeze(-1)

    def rows(self, index: Tensor) -> "System":
        """The same equation for some of the rows only."""
        return replace(self, y=self.y[index], strength=self.strength[index], atol=self.atol[index])


def _spread(rows: Tensor) -> Tensor:
    """(rows, 1): how far apart the units of a row are."""
    rows = rows.detach()
    return rows.amax(-1, keepdim=True) - rows.amin(-1, keepdim=True)
