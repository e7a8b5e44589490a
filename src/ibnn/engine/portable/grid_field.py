"""B(z) and its Jacobian from a grid: the units are touched, the nodes are solved."""

from collections.abc import Callable
from functools import cached_property

import torch
from torch import Tensor

from ibnn.engine.portable.device import on_host
from ibnn.engine.portable.grid import locate
from ibnn.engine.portable.layout import Layout
from ibnn.engine.portable.taps import IDENTITY, Taps
from ibnn.engine.portable.unit_cg import least_kept

MAX_PRODUCTS = 200
# on a device a look costs more than products do: so many are made, for a direction and for a
# solution; what is left of the residual is told, and corrected by another round
DIRECTION, SOLUTION = 3, 6
# of a step from a guess: less than what the curvature of B leaves of it (1e-4 costs a product more)
STEP_ERROR = 1e-3


class GridField:
    """Everything at one z.

    With `rough` the slope is read off the spline of B: cheaper, and good enough for directions.
    Units count 1/D each, or as `weights` says.
    """

    def __init__(
        self,
        z: Tensor,
        middle: Tensor,
        layout: Layout,
        rough: bool = False,
        weights: Tensor | None = None,
    ) -> None:
        self._weights = weights
        self.spacing, self.rough = layout.spacing, rough
        self.near_threshold, self.looks = layout.near_threshold, on_host(z)
        self.products = DIRECTION if rough else SOLUTION
        self.taps = Taps(layout, z)
        origin = layout.origin(middle)
        self.places = locate(z, origin, layout.spacing, layout.nodes, layout.order)
        self._origin = origin
        self._kept: Tensor | None = None
        self._least: Tensor | None = None

    @cached_property
    def density(self) -> Tensor:
        return self.spread(None)

    @property
    def nodes(self) -> Tensor:
        """Their places, (rows, nodes)."""
        number = torch.arange(self.taps.nodes, device=self._origin.device, dtype=self._origin.dtype)
        return self._origin + self.spacing * number

    def spread(self, a: Tensor | None) -> Tensor:
        if self._weights is not None:
            return self.places.spread(self._weights if a is None else a * self._weights)
        return self.places.spread(a).div_(self.places.shape[1])

    def pair_sum(self, a: Tensor | None, derivative: int) -> Tensor:
        density = self.density if a is None else self.spread(a)
        return self.places.gather(self.taps.apply(density, derivative, 2))

    @cached_property
    def _bias_and_slope(self) -> tuple[Tensor, Tensor]:
        coefficients = self.taps.apply(self.density, 0, 2)
        bias, derivative = self.places.gather_with_derivative(coefficients)
        return bias, derivative.mul_(-1 / self.spacing)

    @property
    def bias(self) -> Tensor:
        return self._bias_and_slope[0] if self.rough else self._bias

    @cached_property
    def _bias(self) -> Tensor:
        return self.pair_sum(None, 0)

    @property
    def slope(self) -> Tensor:
        return self._bias_and_slope[1] if self.rough else self._slope

    @cached_property
    def _slope(self) -> Tensor:
        return self.pair_sum(None, 1)

    def kept(self, strength: Tensor) -> Tensor:
        """1 - c d, kept positive; a field belongs to one strength."""
        if self._kept is None:
            self._kept = self._bounded(self.slope * -strength, strength)
        return self._kept

    def _bounded(self, pull: Tensor, strength: Tensor) -> Tensor:
        """1 + pull in place of pull, and not below what 1 - c d can be."""
        if self._least is None:
            self._least = least_kept(strength)
        return torch.maximum(pull.add_(1), self._least, out=pull)

    def product(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """P_1(z, v), and v . B(z) of each row, on the nodes."""
        weights = self.spread(v)
        pulled = self.places.gather(self.taps.apply(weights, 1, 2))
        dot = (weights * self.taps.apply(self.density, 0, 2)).sum(1)
        return pulled, dot.mul_(self.places.shape[1]).to(v.dtype)

    def solve(self, g: Tensor, strength: Tensor, tolerance: Tensor | float) -> Tensor:
        """v with (1 - c d) v + c P_1(z, v) = g.

        u = P_1(z, v) is a smooth function: its values on the nodes solve u = S (x - c m u), S the
        samples of s_1, x the quadrature weights of g/(1 - c d) on the nodes and m those of
        1/(1 - c d). With u = S w this is (1 + c m S) w = x, where w are the weights of v itself.
        """
        return self._solve(g, strength, tolerance)[0]

    def solve_and_judge(
        self, g: Tensor, strength: Tensor, tolerance: Tensor | float
    ) -> tuple[Tensor, Tensor]:
        """v as `solve` has it, and its relative residual."""
        return self._solve(g, strength, tolerance)[:2]

    def solve_and_pull(
        self, g: Tensor, strength: Tensor, tolerance: Tensor
    ) -> tuple[Tensor, Tensor]:
        """v as `solve` has it, and the coefficients of P_1(z, v)."""
        v, _, pulled = self._solve(g, strength, tolerance)
        return v, pulled

    def _solve(
        self, g: Tensor, strength: Tensor, tolerance: Tensor | float
    ) -> tuple[Tensor, Tensor, Tensor]:
        scale = g.abs().amax(1, keepdim=True).clamp_(min=torch.finfo(g.dtype).tiny)
        slope = None
        if self.near_threshold:
            # 1/(1 - c d) has a peak as narrow as sqrt(1 - c) at a crowd of units
            kept = self.kept(strength)
            right = self.taps.apply(self.spread(g / kept), IDENTITY, 1)
            mixing = self.taps.apply(self.spread(1 / kept), IDENTITY, 1)
        else:
            given = self._spread_beside_density(g)
            kernels = [(IDENTITY, 1), (1, 1)]
            if self._kept is None and not self.rough:
                kernels.append((1, 2))
            mixing, kept, *slope = self.taps.apply_each(self.density, *kernels)
            kept = self._bounded(kept.mul_(-strength), strength)
            right = self.taps.apply(given, IDENTITY, 1).div_(kept)
            mixing.div_(kept)
        w, _, left = self._conjugate_gradients(
            right.div_(scale), mixing.mul_(strength), strength, tolerance
        )
        del right, mixing, kept  # memory is what limits the size of blocks
        pulled = self.taps.apply(w.mul_(scale), 1, 1)
        if slope:
            slope, at_units = self.places.gather_both(slope[0], pulled)
            self._kept = self._bounded(slope.mul_(-strength), strength)
        else:
            at_units = self.places.gather(pulled)
        v = torch.addcmul(g, at_units, strength, value=-1).div_(self.kept(strength))
        return v, left, pulled

    def _spread_beside_density(self, g: Tensor) -> Tensor:
        if self._weights is not None or "density" in vars(self):
            return self.spread(g)
        count, given = self.places.spread_both(g)
        self.density = count.div_(self.places.shape[1])
        return given.div_(self.places.shape[1])

    def step_between(self, guess: Callable[[Tensor], Tensor], strength: Tensor) -> Tensor:
        """Newton's step of the units from the z where z + c guess(z) = y, worked out on the nodes:
        what the guess leaves is c (B - guess), a smooth function of z."""
        left, mixing, kept = self.taps.apply_each(self.density, (0, 1), (IDENTITY, 1), (1, 1))
        left.sub_(guess(self.nodes)).mul_(strength)
        kept = self._bounded(kept.mul_(-strength), strength)
        mixing.div_(kept)
        _, pulled, _ = self._conjugate_gradients(
            left * mixing, mixing.mul_(strength), strength, STEP_ERROR
        )
        return self.interpolate(left.addcmul_(pulled, strength, value=-1).div_(kept))

    @property
    def quadrature(self) -> Tensor:
        """Weights of the nodes that stand for the units: sums of smooth functions are the same."""
        return self.taps.apply(self.density, IDENTITY, 1)

    def interpolate(self, values: Tensor) -> Tensor:
        """A smooth function at the units, given on the nodes."""
        return self.places.gather(self.taps.apply(values, IDENTITY, 1))

    def _conjugate_gradients(
        self, x: Tensor, mixing: Tensor, strength: Tensor, tolerance: Tensor | float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """w with (1 + mixing S) w = x, S w, and the residual: symmetric in the inner product of S,
        whatever the signs of the mixing, and positive below the threshold."""
        tiny, eps = torch.finfo(x.dtype).tiny, torch.finfo(x.dtype).eps
        w = torch.zeros_like(x)
        sw = torch.zeros_like(x) if self.looks else w
        r = x
        sr = self.taps.apply(r, 1, 0)
        p, sp = r, sr
        energy = (r * sr).sum(1, keepdim=True)
        goal = tolerance / (1 + strength.abs()) if self.looks else None
        floor = (energy * eps**2).clamp_(min=tiny)
        for product in range(1, MAX_PRODUCTS + 1):
            if goal is not None and product > 1 and not self._going(sr, goal, energy):
                break
            mp = torch.addcmul(p, mixing, sp)
            curvature = (sp * mp).sum(1, keepdim=True)
            # rows that are solved, or where J turns out not to be positive, stand still
            step = torch.where(curvature > floor, energy / curvature, 0)
            w.addcmul_(step, p)
            if self.looks:  # asked for on the host alone
                sw.addcmul_(step, sp)
            r = torch.addcmul(r, step, mp, value=-1)
            sr = self.taps.apply(r, 1, 0)
            if goal is None and product == self.products:
                break
            energy, old = (r * sr).sum(1, keepdim=True), energy
            turn = energy / old.clamp_(min=tiny)
            p, sp = torch.addcmul(r, turn, p), torch.addcmul(sr, turn, sp)
        return w, sw, (strength * sr).abs().amax(1)

    @staticmethod
    def _going(residual: Tensor, goal: Tensor, energy: Tensor) -> bool:
        return bool(((residual.abs().amax(1, keepdim=True) > goal) & (energy > 0)).any())
