"""A network on a plane through its input space: linear regions, and how it bends inside them.

A ReLU network of standard neurons is linear wherever no unit changes sign: its regions are the
cells of equal signs, and second derivatives vanish inside. An implicit layer is curved there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ibnn.lab.stats.region import EDGE, curved_fraction
from ibnn.lab.theory_checks.layers import ReluInputs

BATCH = 512
DRAWN = 240  # units whose lines of sign change are drawn: more make a page of ink


@dataclass(frozen=True)
class Plane:
    """The points center + a u + b v with (a, b) in [-edge, edge]^2."""

    center: Tensor
    u: Tensor
    v: Tensor

    @classmethod
    def through(cls, three: Tensor) -> Plane:
        """The plane through three examples: they lie on a circle around the origin of (a, b).

        `u` and `v` are orthogonal and equally long, so that angles and circles stay what they are.
        """
        first, second, third = three.flatten(1)
        u = second - first
        v = third - first
        v = v - u * (u @ v) / (u @ u)
        if not (u.norm() > 0 and v.norm() > 1e-6 * u.norm()):
            raise ValueError("three examples on a line span no plane")
        center = _circumcenter(first, second, third)
        radius = (first - center).norm()
        u, v = (side / side.norm() * radius for side in (u, v))
        shape = three.shape[1:]
        return cls(center.reshape(shape), u.reshape(shape), v.reshape(shape))

    def at(self, ab: Tensor) -> Tensor:
        """The inputs at coordinates (..., 2)."""
        flat = torch.stack([self.u.flatten(), self.v.flatten()])
        return (self.center.flatten() + ab @ flat).reshape(*ab.shape[:-1], *self.center.shape)

    def coordinates(self, x: Tensor) -> Tensor:
        """(a, b) of the nearest point of the plane."""
        flat = torch.stack([self.u.flatten(), self.v.flatten()])
        return (x.flatten(1) - self.center.flatten()) @ flat.T / flat.square().sum(1)


@dataclass(frozen=True)
class Slice:
    """What is seen on a grid over the plane, rows from bottom to top."""

    logits: NDArray[np.float64]  # (side, side, classes)
    cells: NDArray[np.int64] | None  # the number of the linear region; None without a ReLU
    units: NDArray[np.float64]  # (side, side, some) what reaches the ReLUs of some units
    bending: NDArray[np.float64]  # |second derivative| of the shown score over |first|, coarser

    @property
    def regions(self) -> int | None:
        """How many linear regions the grid sees: connected cells of equal signs."""
        return None if self.cells is None else int(self.cells.max()) + 1

    def margin(self, label: int) -> NDArray[np.float64]:
        """The score of a class above the best of the others: its region is where this is > 0."""
        if self.logits.shape[-1] == 1:
            return (1 if label else -1) * self.logits[..., 0]
        others = np.delete(self.logits, label, axis=-1)
        return self.logits[..., label] - others.max(-1)

    def curved_fraction(self, label: int) -> float | None:
        """Fraction of the length of that class's boundary that bends."""
        return curved_fraction(self.margin(label))


def look(network: nn.Module, plane: Plane, label: int, side: int = 101, coarse: int = 31) -> Slice:
    """The network on side x side points of the plane, its exact second derivatives on fewer."""
    logits, kinds, units = [], [], []
    for part in _grid(side, plane).split(BATCH):
        with torch.no_grad(), ReluInputs() as seen:
            logits.append(network(plane.at(part)))
        values = seen.values(len(part))
        if values is not None:
            values = values.cpu()
            kinds.append(np.packbits(values.numpy() > 0, axis=1))
            chosen = torch.linspace(0, values.shape[1] - 1, min(DRAWN, values.shape[1])).long()
            units.append(values[:, chosen])
    bending = [
        bend(lambda ab: _score(network(plane.at(ab)), label), part)
        for part in _grid(coarse, plane).split(BATCH)
    ]
    return Slice(
        _numbers(logits).reshape(side, side, -1),
        connected(np.concatenate(kinds).reshape(side, side, -1)) if kinds else None,
        _numbers(units).reshape(side, side, -1) if units else np.empty((side, side, 0)),
        _numbers(bending).reshape(coarse, coarse),
    )


def _numbers(parts: list[Tensor]) -> NDArray[np.float64]:
    return torch.cat(parts).cpu().double().numpy()


def _grid(side: int, plane: Plane) -> Tensor:
    axis = torch.linspace(-EDGE, EDGE, side, dtype=plane.u.dtype, device=plane.u.device)
    b, a = torch.meshgrid(axis, axis, indexing="ij")
    return torch.stack([a.flatten(), b.flatten()], 1)


def bend(score: Callable[[Tensor], Tensor], points: Tensor) -> Tensor:
    """|Hessian| / |gradient| of a score at each point (n, 2): 1 over the length over which the
    gradient changes by its own size; 0 for a function that is linear there."""
    ab = points.clone().requires_grad_()
    (slope,) = torch.autograd.grad(score(ab).sum(), ab, create_graph=True)
    if not slope.requires_grad:  # linear everywhere
        return points.new_zeros(len(points))
    second = [
        torch.autograd.grad(total, ab, retain_graph=True, materialize_grads=True)[0]
        for total in slope.sum(0)
    ]
    size = torch.stack(second, 1).flatten(1).norm(dim=1)
    return size / slope.detach().norm(dim=1).clamp_min(torch.finfo(size.dtype).tiny)


def connected(pattern: NDArray[Any]) -> NDArray[np.int64]:
    """Numbers from 0 on for the connected cells (side by side) of equal patterns (h, w, bytes)."""
    from scipy.ndimage import label

    height, width, _ = pattern.shape
    _, kinds = np.unique(pattern.reshape(height * width, -1), axis=0, return_inverse=True)
    kinds = kinds.reshape(height, width)
    # a grid of doubled resolution: walls between neighbors of different kind
    open_cells = np.zeros((2 * height - 1, 2 * width - 1), dtype=bool)
    open_cells[::2, ::2] = True
    open_cells[1::2, ::2] = kinds[1:] == kinds[:-1]
    open_cells[::2, 1::2] = kinds[:, 1:] == kinds[:, :-1]
    numbers = np.zeros(open_cells.shape, dtype=np.int64)
    label(open_cells, output=numbers)
    return numbers[::2, ::2] - 1


def _score(logits: Tensor, label: int) -> Tensor:
    return logits[:, 0] if logits.shape[1] == 1 else logits[:, label]


def _circumcenter(first: Tensor, second: Tensor, third: Tensor) -> Tensor:
    """The point equally far from three points, in their plane."""
    sides = torch.stack([second - first, third - first])
    gram = sides @ sides.T
    return first + torch.linalg.solve(2 * gram, gram.diagonal()) @ sides
