"""Pair sums term by term: exact, O(D^2), for short rows and as the last resort of long ones."""

import torch
from torch import Tensor

from ibnn.engine.portable.device import node_dtype
from ibnn.engine.portable.unit_cg import UnitField
from ibnn.sigma import Sigma

# terms of one temporary: a few MB, so that it stays in the processor's cache
BLOCK = 1 << 20
# the longest row whose D x D matrix may be kept: 2 MB, and beyond it other ways are quicker, too
KEPT_UNITS = 512


class DirectField(UnitField):
    """The field at z, with the matrix of s_1(z_k - z_i) kept if the rows are short."""

    def __init__(self, z: Tensor, sigma: Sigma) -> None:
        self.z, self.sigma = z, sigma
        self.matrix: Tensor | None = None
        if z.shape[1] <= KEPT_UNITS:
            x = z[:, None, :] - z[:, :, None]
            value = sigma.derivative(x, 0)
            self.bias = value.mean(-1)
            # tanh' = 1 - tanh^2 saves half of the work
            slope = 1 - value.square_() if sigma.name == "tanh" else sigma.derivative(x, 1)
            self.matrix = slope.div_(z.shape[1])
            self.slope = self.matrix.sum(-1)
        else:
            self.bias = direct_sum(z, None, 0, sigma)
            self.slope = direct_sum(z, None, 1, sigma)

    def pulled(self, v: Tensor) -> Tensor:
        if self.matrix is not None:
            if node_dtype(v) != v.dtype:  # a product of matrices might be rounded
                return (self.matrix * v[:, None, :]).sum(-1)
            return torch.bmm(self.matrix, v[..., None]).squeeze(-1)
        return direct_sum(self.z, v, 1, self.sigma)


def direct_sum(z: Tensor, a: Tensor | None, order: int, sigma: Sigma) -> Tensor:
    """(1/D) sum_k a_k s_n(z_k - z_i), in blocks of at most `BLOCK` terms."""
    rows, units = z.shape
    result = torch.empty_like(z)
    row_step = rows_per_block(units)
    unit_step = max(1, BLOCK // (units * row_step))
    for r in range(0, rows, row_step):
        near = slice(r, r + row_step)
        for i in range(0, units, unit_step):
            terms = sigma.derivative(z[near, None, :] - z[near, i : i + unit_step, None], order)
            if a is not None:
                terms = terms * a[near, None, :]
            result[near, i : i + unit_step] = terms.mean(-1)
    return result


def rows_per_block(units: int) -> int:
    return max(1, BLOCK // max(1, units * units))
