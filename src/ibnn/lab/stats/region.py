"""The region of the plane a network assigns to a class: its map, how convex it is, how round."""

import base64
import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

EDGE = 1.05  # the points lie in about [-1, 1] x [-1, 1]
STRIDE = 0.05  # between the points of a line whose turns are counted
TURN = 0.03  # radians


def logits_on_grid(network: nn.Module, side: int) -> NDArray[np.float64]:
    """The network's output on side x side points of the square, rows from bottom to top."""
    dtype = next(network.parameters()).dtype
    axis = torch.linspace(-EDGE, EDGE, side, dtype=dtype)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    with torch.no_grad():
        values = network(torch.stack([x.flatten(), y.flatten()], 1)).squeeze(1)
    return values.reshape(side, side).double().numpy()


def solidity(inside: NDArray[np.bool_]) -> float | None:
    """Area of a region's largest part over the area of its convex hull: 1 if convex.

    None if there is no area. Counted in cells of the grid, for the region and its hull alike, so
    that a convex region gives 1 whatever the grid.
    """
    from scipy.ndimage import label
    from scipy.spatial import ConvexHull, QhullError

    parts = np.zeros(inside.shape, dtype=np.int32)
    label(inside, output=parts)
    sizes = np.bincount(parts.ravel(), minlength=2)[1:]
    points = np.argwhere((parts == 1 + sizes.argmax()) & inside).astype(float)
    try:
        faces = ConvexHull(points).equations
    except (QhullError, ValueError):  # fewer than three points, or all on a line
        return None
    every = np.argwhere(np.ones_like(inside)).astype(float)
    within = (every @ faces[:, :2].T + faces[:, 2] <= 1e-9).all(axis=1)
    return float(len(points) / within.sum())


def curved_fraction(values: NDArray[np.float64]) -> float | None:
    """Fraction of the length of the zero line that bends; None if there is no such line.

    Points are taken every 0.05 along the line; one bends if the line turns there by more than
    0.03 radians (a circle of radius 1.7). A polygon bends at its corners only.
    """
    import contourpy

    axis = np.linspace(-EDGE, EDGE, values.shape[0])
    lines = contourpy.contour_generator(axis, axis, values).lines(0.0)
    turns = [_turns(np.asarray(line)) for line in lines]
    every = np.concatenate(turns) if turns else np.empty(0)
    return float((np.abs(every) > TURN).mean()) if len(every) else None


def _turns(line: NDArray[np.float64]) -> NDArray[np.float64]:
    """By how much the line turns at points equally far apart, in radians."""
    along = np.concatenate([[0.0], np.hypot(*np.diff(line, axis=0).T).cumsum()])
    stations = np.arange(0.0, along[-1], STRIDE)
    points = np.stack([np.interp(stations, along, line[:, k]) for k in (0, 1)], axis=1)
    steps = np.diff(points, axis=0)
    angles = np.arctan2(steps[:, 1], steps[:, 0])
    return (np.diff(angles) + np.pi) % (2 * np.pi) - np.pi


def pack(inside: NDArray[np.bool_]) -> str:
    """A map as text, one bit per point."""
    return base64.b64encode(np.packbits(inside).tobytes()).decode()


def unpack(text: str) -> NDArray[np.bool_]:
    """A square map from its text.

    >>> bool((unpack(pack(np.eye(4, dtype=bool))) == np.eye(4)).all())
    True
    """
    bits = np.unpackbits(np.frombuffer(base64.b64decode(text), dtype=np.uint8)).astype(bool)
    side = math.isqrt(len(bits))  # padded to whole bytes: fewer than 8 bits, no longer side
    return bits[: side * side].reshape(side, side)
