"""Float64 solutions at little more than the cost of float32 ones: one step of iterative
refinement."""

import torch
from torch import Tensor

import ibnn


def mixed_precision_solve(
    y: Tensor, lam: float, slope: float = 10.0, *, sigma: str | ibnn.Sigma = "tanh"
) -> Tensor:
    """z of float64 rows y of uniform weights, without gradients.

    A float32 solve leaves an error e of some 1e-6. Its residual r is measured in float64, and the
    correction K_inf r need not be better than float32: what is left is 1e-6 of e from rounding and
    p e^2 from Newton's step. Measured: a fifth of the time of a float64 solve at 64 units.

    >>> y = torch.tensor([[0.3, -0.2, 0.1]], dtype=torch.float64)
    >>> float((mixed_precision_solve(y, -0.5) - ibnn.implicit_bias(y, -0.5)).abs().max()) < 1e-10
    True
    """
    y = y.detach()
    with torch.enable_grad():
        rounded = y.float().requires_grad_()
        rough = ibnn.implicit_bias(rounded, lam, slope, sigma=sigma)
    # y keeps the digits that float32 has no room for
    z = y + (rough.detach().double() - rounded.detach())
    residual = ibnn.residual(z, y, lam, slope, sigma=sigma)
    # K_inf is symmetric: the product of the backward pass is the one that is wanted
    (correction,) = torch.autograd.grad(rough, rounded, residual.float())
    return z - correction
