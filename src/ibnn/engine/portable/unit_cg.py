"""Conjugate gradients on the units: J v = g for any field that can multiply by P_1."""

import torch
from torch import Tensor

MAX_PRODUCTS = 400


def least_kept(strength: Tensor) -> Tensor:
    """Half of what 1 - c d can be at least; above the threshold it has no such bound."""
    half = (1 - strength).clamp_(max=1).mul_(0.5)
    return half.masked_fill_(half <= 0, 0.02)


class UnitField:
    """A field with B(z), d(z) = P_1(z, 1) and P_1(z, v)."""

    bias: Tensor
    slope: Tensor

    def pulled(self, v: Tensor) -> Tensor:
        """P_1(z, v)."""
        raise NotImplementedError

    def product(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """P_1(z, v), and v . B(z) of each row."""
        return self.pulled(v), (v * self.bias).sum(1)

    def solve(self, g: Tensor, strength: Tensor, tolerance: Tensor | float) -> Tensor:
        """v with J v = (1 - c d) v + c P_1(z, v) = g."""
        kept = 1 - strength * self.slope
        # near the diagonal of J; it is not positive everywhere above the threshold
        precondition = 1 / torch.maximum(kept, least_kept(strength))
        tiny = torch.finfo(g.dtype).tiny
        scale = g.abs().amax(1, keepdim=True)
        scale = torch.where(scale > 0, scale, torch.ones_like(scale))
        r = g / scale
        norm = r.norm(dim=1, keepdim=True)
        v = torch.zeros_like(r)
        s = precondition * r
        p = s.clone()
        rs = (r * s).sum(1, keepdim=True)
        left = norm
        for _ in range(MAX_PRODUCTS):
            going = left > tolerance * norm
            if not going.any():
                break
            jp = kept * p + strength * self.pulled(p)
            curvature = (p * jp).sum(1, keepdim=True)
            # rows that are solved, or where J turns out not to be positive, stand still
            step = torch.where(going & (curvature > 0), rs / curvature, 0)
            if not step.any():
                break
            v.addcmul_(step, p)
            r.addcmul_(step, jp, value=-1)
            s = precondition * r
            rs, old = (r * s).sum(1, keepdim=True), rs
            p = torch.where(step != 0, s + rs / old.clamp(min=tiny) * p, p)
            left = r.norm(dim=1, keepdim=True)
        return v * scale
