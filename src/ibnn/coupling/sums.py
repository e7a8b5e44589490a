"""The sums over the weighted pairs of a row that everything is made of, in plain torch.

`P_n(z, a)_i = sum_k w_ik a_k s_n(z_k - z_i)`, with s_n the n-th derivative of sigma (-1: its
primitive) and `a` None for ones. Plain numbers in, plain numbers out: gradients are made of these
sums in `ibnn._core.pair_sums`. Rows are flat, `units` is the shape of a row before that, and z is
in units where sigma has slope 1.
"""

from collections.abc import Callable, Sequence
from math import inf, prod

import torch
from torch import Tensor

from ibnn._registry import Registry
from ibnn.sigma import Sigma

# v -> P_1(z, v) at one z; None for ones
Products = Callable[[Tensor | None], Tensor]


class PairSums:
    """The sums of one kind of weights. Engines may serve them faster, by `name`."""

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
        """P_n(z, a)."""
        raise NotImplementedError

    def products(
        self, z: Tensor, weight: Tensor | None, sigma: Sigma, units: Sequence[int]
    ) -> Products | None:
        """v -> P_1(z, v) at one z, where it is quicker than a sum of its own for every v."""
        return None

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

    def unread_bound(self, weight: Tensor | None) -> "float | Tensor":
        """The same without reading a number of the weights, which may be on a GPU or inside
        torch.func; inf where there is none."""
        return inf

    def largest_eigenvalue(self, weight: Tensor, units: Sequence[int]) -> float:
        """The eigenvalue itself, at any price that is worth paying near the threshold."""
        return self.eigenvalue_bound(weight)

    def self_weight(self, weight: Tensor | None, units: Sequence[int]) -> "float | Tensor":
        """w_ii as the sums count it; it cancels in the equation and appears in diagonals."""
        raise NotImplementedError


class UniformSums(PairSums):
    """w = 1/D: nothing to store."""

    name = "uniform"

    def pair_sum(
        self,
        z: Tensor,
        a: Tensor | None,
        weight: Tensor | None,
        order: int,
        sigma: Sigma,
        units: Sequence[int],
    ) -> Tensor:
        return _all_pairs(z, a, order, sigma, None)

    def products(
        self, z: Tensor, weight: Tensor | None, sigma: Sigma, units: Sequence[int]
    ) -> Products | None:
        return _on_kept_slopes(z, sigma, None)

    def eigenvalue_bound(self, weight: Tensor | None) -> float:
        return 1.0

    def unread_bound(self, weight: Tensor | None) -> float:
        return 1.0

    def self_weight(self, weight: Tensor | None, units: Sequence[int]) -> float:
        return 1 / max(prod(units), 1)


class MatrixSums(PairSums):
    """w is a D x D matrix: O(D^2), for any coupling that has no sums of its own."""

    name = "matrix"

    def pair_sum(
        self,
        z: Tensor,
        a: Tensor | None,
        weight: Tensor | None,
        order: int,
        sigma: Sigma,
        units: Sequence[int],
    ) -> Tensor:
        assert weight is not None
        return _all_pairs(z, a, order, sigma, weight)

    def products(
        self, z: Tensor, weight: Tensor | None, sigma: Sigma, units: Sequence[int]
    ) -> Products | None:
        return _on_kept_slopes(z, sigma, weight)

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
        result = z.new_zeros(weight.shape)
        for r, i in _blocks(*z.shape):
            values = sigma.derivative(z[r, None, :] - z[r, i, None], order) * g[r, i, None]
            result[i] += (values if a is None else values * a[r, None, :]).sum(0)
        return result

    def transpose(self, weight: Tensor) -> Tensor:
        return weight.T

    def eigenvalue_bound(self, weight: Tensor | None) -> float:
        return float(self.unread_bound(weight))

    def unread_bound(self, weight: Tensor | None) -> Tensor:
        """Gershgorin."""
        assert weight is not None
        return 2 * (weight.sum(1) - weight.diagonal()).amax()

    def largest_eigenvalue(self, weight: Tensor, units: Sequence[int]) -> float:
        if len(weight) > _MOST_UNITS:
            return self.eigenvalue_bound(weight)
        return laplacian_eigenvalue(weight)

    def self_weight(self, weight: Tensor | None, units: Sequence[int]) -> Tensor:
        assert weight is not None
        return weight.diagonal()


def laplacian_eigenvalue(weight: Tensor) -> float:
    """The largest eigenvalue of diag(sum_k w_ik) - w."""
    w = weight.to("cpu", torch.float64)
    return float(torch.linalg.eigvalsh(torch.diag(w.sum(1)) - w)[-1].clamp(min=0))


REGISTRY: Registry[PairSums] = Registry("sums", PairSums)
UNIFORM = REGISTRY.register(UniformSums())
MATRIX = REGISTRY.register(MatrixSums())

# eigenvalues of larger matrices take seconds
_MOST_UNITS = 1024
# Pairs worked on at once by blocked sums: 4 million floats are 16 MB, the size of a large cache.
_PAIRS = 1 << 22


def _all_pairs(
    z: Tensor, a: Tensor | None, order: int, sigma: Sigma, weight: Tensor | None
) -> Tensor:
    """P_n by direct summation, a block at a time; weight None is 1/D."""
    rows, units = z.shape
    result = torch.empty_like(z)
    for r, i in _blocks(rows, units):
        values = sigma.derivative(z[r, None, :] - z[r, i, None], order)
        if weight is not None:
            values = values * weight[i]
        # not a product of matrices, which a device may round to 10 bits
        result[r, i] = (values if a is None else values * a[r, None, :]).sum(-1)
    return result if weight is not None else result.div_(max(units, 1))


def _on_kept_slopes(z: Tensor, sigma: Sigma, weight: Tensor | None) -> Products | None:
    """v -> P_1(z, v) from the slopes of all pairs, where they fit in a block: a sigma costs some
    twenty times as much as a product."""
    if z.shape[0] * z.shape[1] ** 2 > _PAIRS:
        return None
    slopes = sigma.derivative(z[:, None, :] - z[:, :, None], 1)
    slopes = slopes / max(z.shape[1], 1) if weight is None else slopes * weight
    return lambda v: (slopes if v is None else slopes * v[:, None, :]).sum(-1)


def _blocks(rows: int, units: int) -> list[tuple[slice, slice]]:
    width = max(1, min(units, _PAIRS // max(units, 1)))
    height = max(1, _PAIRS // max(units * width, 1))
    return [
        (slice(r, r + height), slice(i, i + width))
        for r in range(0, rows, height)
        for i in range(0, units, width)
    ]
