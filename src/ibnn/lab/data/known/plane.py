"""Two classes of points in the plane, drawn on the fly: arrows, moons, circles, spirals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.random import RandomState
from numpy.typing import NDArray
from torch import Tensor

from ibnn.lab.data.dataset import Dataset, random_state
from ibnn.lab.data.dataset_defaults import Defaults
from ibnn.lab.data.errors import DataError
from ibnn.lab.data.source import Source

Points = NDArray[np.float64]


@dataclass(frozen=True)
class PlaneSource(Source):
    """Needs no files: 2000 training and 2000 test points, always the same."""

    def read(self, files: Sequence[Path]) -> Dataset:
        return draw(self.name)


def draw(name: str, n_train: int = 2000, n_test: int = 2000, seed: int = 0) -> Dataset:
    """A fresh drawing of one of the sets, both classes equally often (up to one point)."""
    if name not in _CLASSES:
        raise DataError(f"unknown set {name!r}, expected one of {', '.join(_CLASSES)}")
    for argument, count in (("n_train", n_train), ("n_test", n_test)):
        if count < 2:
            raise ValueError(f"{argument}={count}, expected at least 2")
    x_train, y_train = _split(name, n_train, random_state(f"{name} train", seed))
    x_test, y_test = _split(name, n_test, random_state(f"{name} test", seed))
    return Dataset(name, x_train, y_train, x_test, y_test, 2, (2,))


def _split(name: str, count: int, random: RandomState) -> tuple[Tensor, Tensor]:
    sizes = (count - count // 2, count // 2)
    x = np.concatenate([_CLASSES[name](label, sizes[label], random) for label in (0, 1)])
    y = np.repeat((0, 1), sizes)
    order = random.permutation(count)
    return torch.from_numpy(x[order].astype(np.float32)), torch.from_numpy(
        y[order].astype(np.int64)
    )


def arrow_outlines() -> tuple[Points, Points, Points]:
    """The corners of (outer edge of the ring, its inner edge, the arrow inside).

    Class 0 is the ring, class 1 the arrow inside; between them is a gap. The ring fills the two
    nooks behind the arrow's head, so no convex boundary separates the classes.
    """
    ring = _arrow(tail=-0.96, neck=-0.30, tip=0.96, shaft=0.45, head=0.96)
    hole = _arrow(tail=-0.80, neck=-0.12, tip=0.72, shaft=0.20, head=0.70)
    inside = _arrow(tail=-0.72, neck=-0.04, tip=0.60, shaft=0.12, head=0.54)
    return ring, hole, inside


def _arrow(*, tail: float, neck: float, tip: float, shaft: float, head: float) -> Points:
    """An arrow pointing right: where it begins, widens and ends, and the two half widths."""
    upper = [(tail, shaft), (neck, shaft), (neck, head)]
    lower = [(x, -y) for x, y in reversed(upper)]
    return np.array([*upper, (tip, 0.0), *lower])


def _inside(points: Points, corners: Points) -> NDArray[np.bool_]:
    """Whether each point lies in a polygon: a ray to the right crosses its edges an odd number."""
    x, y = points[:, :1], points[:, 1:]
    (x0, y0), (x1, y1) = corners.T, np.roll(corners, -1, axis=0).T
    spans = (y0 > y) != (y1 > y)
    with np.errstate(divide="ignore", invalid="ignore"):  # horizontal edges, never spanned
        crossing = x0 + (y - y0) * (x1 - x0) / (y1 - y0)
    return (spans & (x < crossing)).sum(axis=1) % 2 == 1


def _arrows(label: int, count: int, random: RandomState) -> Points:
    ring, hole, inside = arrow_outlines()
    kept = np.empty((0, 2))
    while len(kept) < count:
        points = random.uniform(-1, 1, size=(4 * count, 2))
        if label == 0:
            points = points[_inside(points, ring) & ~_inside(points, hole)]
        else:
            points = points[_inside(points, inside)]
        kept = np.concatenate([kept, points])
    return kept[:count]


def _moons(label: int, count: int, random: RandomState) -> Points:
    angle = random.uniform(0, np.pi, size=count)
    moon = np.stack([np.cos(angle) - 0.5, np.sin(angle) - 0.25], axis=1)
    return 0.6 * (moon if label == 0 else -moon) + random.normal(0, 0.06, size=(count, 2))


def _circles(label: int, count: int, random: RandomState) -> Points:
    angle = random.uniform(0, 2 * np.pi, size=count)
    radius = (0.85, 0.4)[label] + random.normal(0, 0.06, size=count)
    return radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def _spirals(label: int, count: int, random: RandomState) -> Points:
    # The square root spreads the points evenly along the arms.
    turn = np.sqrt(random.uniform(0.01, 1, size=count))
    angle = 3 * np.pi * turn + np.pi * label
    arm = 0.95 * turn[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return arm + random.normal(0, 0.02, size=(count, 2))


_CLASSES: dict[str, Callable[[int, int, RandomState], Points]] = {
    "arrows": _arrows,
    "moons": _moons,
    "circles": _circles,
    "spirals": _spirals,
}

_ABOUT = {
    "arrows": "an arrow inside an arrow-shaped ring, drawn on the fly",
    "moons": "two interleaved half moons, drawn on the fly",
    "circles": "two concentric circles, drawn on the fly",
    "spirals": "two interleaved spirals, drawn on the fly",
}

SOURCES = tuple(
    PlaneSource(name, about, defaults=Defaults(image_shape=(2,))) for name, about in _ABOUT.items()
)
