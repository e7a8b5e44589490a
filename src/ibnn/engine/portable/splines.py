"""Cardinal B-splines of even order: the polynomial of each cell, and their values at the nodes.

A unit in the cell between nodes m and m+1 has weight b on the `order` nodes around it; each weight
is a polynomial in the unit's offset from the middle of the cell, -1/2 to 1/2.
"""

from functools import lru_cache

import torch
from torch import Tensor


@lru_cache
def piece_matrix(order: int) -> Tensor:
    """Row p, column m: the factor of offset^p in the weight of the m-th node of the cell.

    By de Boor's recursion in x = offset + 1/2: the m-th of k nodes has
    (k-1) b_m(x) = (m + 1 - x) b'_m(x) + (k - 1 - m + x) b'_{m-1}(x), b' the weights of order k-1.
    """
    weights = torch.ones(1, 1, dtype=torch.float64)  # (node, power)
    for k in range(2, order + 1):
        node = torch.arange(k - 1, dtype=torch.float64)[:, None]
        grown = weights.new_zeros(k, k)
        # with x = offset + 1/2
        grown[:-1, :-1] += (node + 0.5) * weights
        grown[:-1, 1:] -= weights
        grown[1:, :-1] += (k - 1.5 - node) * weights
        grown[1:, 1:] += weights
        weights = grown / (k - 1)
    return weights.T.contiguous()


@lru_cache
def _piece_matrix_like(order: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return piece_matrix(order).to(dtype=dtype, device=device)


def node_weights(order: int) -> Tensor:
    """The weights of a unit that sits on the left node of its cell (the last one is zero)."""
    powers = torch.tensor([(-0.5) ** p for p in range(order)], dtype=torch.float64)
    return powers @ piece_matrix(order)


def weights_from_moments(moments: Tensor, each: int = 1) -> Tensor:
    """Sums of a_i offset_i^p over each cell, (order, rows, nodes + order) with nothing in the last
    `order` cells -> sums of a_i b on the nodes, (rows, nodes); `each` numbers lie side by side."""
    order, rows, length = moments.shape
    cells = _piece_matrix_like(order, moments.dtype, moments.device).T @ moments.view(order, -1)
    # node n gets the weight m of cell n - m: a diagonal, which runs into the empty cells
    shape, strides = (rows, order, length - order * each), (length, rows * length - each, 1)
    return cells.as_strided(shape, strides, each * (order // 2 - 1)).sum(1)


def pieces_from_coefficients(coefficients: Tensor, order: int, each: int = 1) -> Tensor:
    """Spline coefficients (rows, nodes) -> (order, rows, nodes): each cell's powers of offset."""
    rows, nodes = coefficients.shape
    margins = each * (order // 2 - 1), each * (order // 2 + 1)
    padded = torch.nn.functional.pad(coefficients, margins)
    length = padded.shape[1]
    # column t: the `order` coefficients from t on, of all rows one after the other
    windows = padded.as_strided((order, rows * length - each * (order - 1)), (each, 1))
    pieces = _piece_matrix_like(order, padded.dtype, padded.device) @ windows
    return pieces.as_strided((order, rows, nodes), (pieces.shape[1], length, 1))
