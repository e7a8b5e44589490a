"""What a coupling is: how y splits into rows of units, the weights, and the sums over them."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ibnn.sigma import Sigma


class Coupling(nn.Module):
    """The weights w_ik >= 0, symmetric, between the units of a row.

    `dims` says which dims of `y` are units; every index of the others is a row of its own.
    """

    kernel: str
    dims: tuple[int, ...]

    def weight(self, dtype: torch.dtype | None = None) -> Tensor | None:
        """The weights as a tensor gradients flow through; None where there is nothing to store."""
        return None

    def largest_eigenvalue(self) -> "float | Tensor":
        """mu, (a bound on) the largest eigenvalue of the Laplacian of w: uniqueness needs
        lam * slope * mu < 1."""
        raise NotImplementedError

    def for_layer(self, spatial_dims: int) -> "Coupling":
        """This coupling inside a convolution with so many spatial dims."""
        return self

    def check_units(self, units: Sequence[int]) -> None:
        """Raises ValueError where y's unit dims do not fit this coupling."""


class Kernel:
    """The sums of one kind of coupling, on rows of units and with slope 1.

    `P_n(z, a)_i = sum_k w_ik a_k s_n(z_k - z_i)`, with s_n the n-th derivative of sigma (-1: its
    primitive) and `a` None for ones. Plain numbers in, plain numbers out: gradients are built from
    these sums in `ibnn._core.adjoint`. `units` is the shape of a row before it was flattened.
    """

    name: str

    def pair_sum(
        self,
        z: Tensor,
        a: Tensor | None,
        weight: Tensor | None,
        order: int,
        sigma: Sigma,
        units: Sequence[int],
    ) -> Tensor:
        raise NotImplementedError

    def pair_outer(
        self,
        z: Tensor,
        g: Tensor,
        a: Tensor | None,
        weight: Tensor,
        order: int,
        sigma: Sigma,
        units: Sequence[int],
    ) -> Tensor:
        """The derivative of `sum(g * P_n(z, a))` by the weights; only `weight`'s shape is used."""
        raise NotImplementedError

    def transpose(self, weight: Tensor) -> Tensor:
        """The weights of k -> i from those of i -> k (cotangents need not be symmetric)."""
        raise NotImplementedError

    def eigenvalue_bound(self, weight: Tensor | None) -> float:
        """A cheap bound on the largest eigenvalue of the Laplacian of w."""
        raise NotImplementedError

    def reduces(self, sigma: Sigma) -> bool:
        """Whether `find_roots` and `solve_jacobian` exist: solves that need fewer unknowns than
        there are units."""
        return False

    def find_roots(
        self,
        y: Tensor,
        strength: Tensor,
        slope: Tensor,
        atol: Tensor,
        resolution: float,
        sigma: Sigma,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """z of y, both before the slope; and of each row, the largest residual after it, the steps,
        and whether it is solved: to atol, or to the share `resolution` of its range, if less. Rows
        that are not finite come back as NaN (residual inf), rows of strength 0 as they were."""
        raise NotImplementedError

    def solve_jacobian(
        self, z: Tensor, g: Tensor, strength: Tensor, sigma: Sigma
    ) -> tuple[Tensor, Tensor, Tensor]:
        """v with J(z) v = g, its relative residual, and v . B(z), of each row."""
        raise NotImplementedError

    def self_weight(self, weight: Tensor | None, units: Sequence[int]) -> "float | Tensor":
        """w_ii as the sums count it; it cancels in the equation and appears in diagonals."""
        raise NotImplementedError


def count(units: Sequence[int]) -> int:
    total = 1
    for size in units:
        total *= size
    return total


# Pairs worked on at once by blocked sums: 4 million floats are 16 MB, the size of a large cache.
_PAIRS = 1 << 22


def blocked_sum(
    z: Tensor, a: Tensor | None, order: int, sigma: Sigma, weight: Tensor | None = None
) -> Tensor:
    """P_n by direct summation over all pairs, a block at a time; weight None is 1/D."""
    rows, units = z.shape
    result = torch.empty_like(z)
    for r, i in _blocks(rows, units):
        values = sigma.derivative(z[r, None, :] - z[r, i, None], order)
        if weight is not None:
            values = values * weight[i]
        result[r, i] = values.sum(-1) if a is None else (values @ a[r, :, None]).squeeze(-1)
    return result if weight is not None else result.div_(max(units, 1))


def blocked_outer(z: Tensor, g: Tensor, a: Tensor | None, order: int, sigma: Sigma) -> Tensor:
    """sum over rows of g_i a_k s_n(z_k - z_i): a D x D matrix."""
    rows, units = z.shape
    result = z.new_zeros(units, units)
    for r, i in _blocks(rows, units):
        values = sigma.derivative(z[r, None, :] - z[r, i, None], order) * g[r, i, None]
        result[i] += (values if a is None else values * a[r, None, :]).sum(0)
    return result


def _blocks(rows: int, units: int) -> list[tuple[slice, slice]]:
    width = max(1, min(units, _PAIRS // max(units, 1)))
    height = max(1, _PAIRS // max(units * width, 1))
    return [
        (slice(r, r + height), slice(i, i + width))
        for r in range(0, rows, height)
        for i in range(0, units, width)
    ]
