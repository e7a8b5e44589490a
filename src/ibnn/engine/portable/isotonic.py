"""The limit of steep sigmas as a start: for c < 0 and sigma a step, z is an isotonic regression.

With sigma = sign, sorted units solve z_i = y_i - c (D + 1 - 2 i)/D wherever they stay in order;
units that would pass each other are tied, at their mean.
"""

import numpy as np
import torch
from torch import Tensor


def isotonic_limit(y: Tensor, strength: Tensor) -> Tensor:
    """z of rows (strength is (rows, 1), below 0) to about the width of sigma, which is 1."""
    ordered, order = y.sort(dim=1)
    units = y.shape[1]
    rank = torch.arange(1 - units, units, 2, device=y.device, dtype=y.dtype) / units
    pulled = (ordered + strength * rank).cpu().numpy()
    tied = torch.from_numpy(np.stack([_pool(row) for row in pulled])).to(y)
    return torch.empty_like(y).scatter_(1, order, tied)


def _pool(row: np.ndarray) -> np.ndarray:
    """Neighbors out of order are replaced by their mean, until none are."""
    means: list[float] = []
    counts: list[int] = []
    for value in row.tolist():
        mean, count = value, 1
        while means and means[-1] >= mean:
            more = counts.pop()
            mean = (mean * count + means.pop() * more) / (count + more)
            count += more
        means.append(mean)
        counts.append(count)
    return np.repeat(means, counts)
