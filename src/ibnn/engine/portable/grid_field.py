"""B(z) and its Jacobian from a grid: the units are touched, the nodes are solved."""

from functools import cached_property

import torch
from torch import Tensor

from ibnn.engine.portable.grid import locate
from ibnn.engine.portable.layout import Layout
from ibnn.engine.portable.taps import IDENTITY, Taps
from ibnn.engine.portable.unit_cg import least_kept

MAX_PRODUCTS = 200


class GridField:
    """Everything at one z; `mass` are the weights of the units (1/D each if None).

    With `rough` the slope is read off the spline of B: cheaper, and good enough for directions.
    """

    def __init__(
        self,
        z: Tensor,
        middle: Tensor,
        layout: Layout,
        mass: Tensor | None = None,
        rough: bool = False,
    ) -> None:
        self.mass, self.spacing, self.rough = mass, layout.spacing, rough
        self.near_threshold = layout.near_threshold
        self.taps = Taps(layout, z)
        self.places = locate(z, layout.origin(middle), layout.spacing, layout.nodes, layout.order)
        self.density = self._spread(None)
        self._kept: Tensor | None = None

    def _spread(self, a: Tensor | None) -> Tensor:
        if self.mass is None:
            return self.places.spread(a).div_(self.places.shape[1])
        return self.places.spread(self.mass if a is None else self.mass * a)

    def pair_sum(self, a: Tensor | None, derivative: int) -> Tensor:
        density = self.density if a is None else self._spread(a)
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
            self._kept = torch.maximum((self.slope * -strength).add_(1), least_kept(strength))
        return self._kept

    def product(self, v: Tensor) -> Tensor:
        """P_1(z, v)."""
        return self.pair_sum(v, 1)

    def solve(
        self, g: Tensor, strength: Tensor, tolerance: Tensor | float
    ) -> tuple[Tensor, Tensor]:
        """v with (1 - c d) v + c P_1(z, v) = g, and its relative residual.

        u = P_1(z, v) is a smooth function: its values on the nodes solve u = S (x - c m u), S the
        samples of s_1, x the quadrature weights of g/(1 - c d) on the nodes and m those of
        1/(1 - c d). With u = S w this is (1 + c m S) w = x, where w are the weights of v itself.
        """
        kept = self.kept(strength)
        size = torch.maximum(g.amax(1, keepdim=True), -g.amin(1, keepdim=True))
        scale = torch.where(size > 0, size, torch.ones_like(size))
        if self.near_threshold:
            # 1/(1 - c d) has a peak as narrow as sqrt(1 - c) at a crowd of units
            share = self.taps.apply(self._spread(g / kept), IDENTITY, 1)
            mixing = self.taps.apply(self._spread(1 / kept), IDENTITY, 1)
        else:
            node_kept = 1 - strength * self.taps.apply(self.density, 1, 1)
            node_kept = torch.maximum(node_kept, least_kept(strength))
            share = self.taps.apply(self._spread(g), IDENTITY, 1).div_(node_kept)
            mixing = self.taps.apply(self.density, IDENTITY, 1).div_(node_kept)
        w, left = self._conjugate_gradients(
            share.div_(scale), mixing.mul_(strength), strength, tolerance
        )
        u = self.places.gather(self.taps.apply(w.mul_(scale), 1, 1))
        return torch.addcmul(g, u, strength, value=-1).div_(kept), left

    def _conjugate_gradients(
        self, x: Tensor, mixing: Tensor, strength: Tensor, tolerance: Tensor | float
    ) -> tuple[Tensor, Tensor]:
        """w with (1 + mixing S) w = x: symmetric in the inner product of S, whatever the signs
        of the mixing, and positive below the threshold."""
        w = torch.zeros_like(x)
        r = x
        sr = self.taps.apply(r, 1, 0)
        p, sp = r, sr
        energy = (r * sr).sum(1, keepdim=True)
        goal = tolerance / (1 + strength.abs())
        for _ in range(MAX_PRODUCTS):
            going = (sr.abs().amax(1, keepdim=True) > goal) & (energy > 0)
            if not going.any():
                break
            mp = torch.addcmul(p, mixing, sp)
            curvature = (sp * mp).sum(1, keepdim=True)
            step = torch.where(going & (curvature > 0), energy / curvature, 0)
            if not step.any():
                break
            w.addcmul_(step, p)
            r = torch.addcmul(r, step, mp, value=-1)
            sr = self.taps.apply(r, 1, 0)
            energy, old = (r * sr).sum(1, keepdim=True), energy
            turn = torch.where(going & (old > 0), energy / old, 0)
            p, sp = torch.addcmul(r, turn, p), torch.addcmul(sr, turn, sp)
        return w, (strength * sr).abs().amax(1)
