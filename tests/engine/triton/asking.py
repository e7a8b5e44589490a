"""The kernels asked as the library asks them, and their answers held against the oracle's."""

from typing import NamedTuple

import numpy as np
import torch

from ibnn.solver.system import RESOLUTION
from tests import bank, oracle

# the accuracy of z that the library asks for in float32
ATOL = 2e-6


class Rows(NamedTuple):
    """Rows of one length, each with its own lam and slope; float32 numbers."""

    names: list[str]
    y: np.ndarray
    lam: np.ndarray
    slope: np.ndarray
    sigma: str = "tanh"

    @property
    def strength(self) -> np.ndarray:
        return self.lam.astype(np.float64) * self.slope

    def every(self, step: int) -> "Rows":
        return Rows(
            self.names[::step], self.y[::step], self.lam[::step], self.slope[::step], self.sigma
        )


class Found(NamedTuple):
    z: np.ndarray
    residual: np.ndarray
    steps: np.ndarray
    solved: np.ndarray


def rows(names: list[str], y, lam, slope, sigma: str = "tanh") -> Rows:
    y = np.atleast_2d(np.asarray(y, dtype=np.float32))
    lam, slope = (np.broadcast_to(np.float32(x), len(y)).copy() for x in (lam, slope))
    return Rows(names, y, lam, slope, sigma)


def of_bank(units: int, sigma: str = "tanh") -> Rows:
    """The rows of the bank's grid that have so many units."""
    problems = [p for p in bank.grid(sigma) if len(p.y) == units]
    y = [p.y for p in problems]
    lam, slope = [p.lam for p in problems], [p.slope for p in problems]
    return rows([str(p) for p in problems], y, lam, slope, sigma)


def solve(asked: Rows) -> Found:
    from ibnn.engine.triton import launch

    slope = torch.from_numpy(asked.slope)
    found = launch.solve(
        torch.from_numpy(asked.y),
        torch.from_numpy(asked.strength),
        slope,
        ATOL * slope,
        RESOLUTION[torch.float32],
        asked.sigma,
    )
    return Found(*(t.numpy() for t in found))


def adjoint(z: np.ndarray, g: np.ndarray, asked: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """v, its error and v . B(z), of z before the slope."""
    from ibnn.engine.triton import launch

    scaled = torch.from_numpy(scale(z, asked))
    strength = torch.from_numpy(asked.strength).float()
    found = launch.solve_adjoint(scaled, torch.from_numpy(g), strength, asked.sigma)
    v, error, dot = (t.numpy() for t in found)
    return v, error, dot


def scale(z: np.ndarray, asked: Rows) -> np.ndarray:
    """slope * z as the kernels get it."""
    return (z * asked.slope[:, None].astype(np.float64)).astype(np.float32)


def exact(asked: Rows) -> np.ndarray:
    """The oracle's z."""
    return np.stack(
        [
            oracle.solve_row(y, float(lam), float(slope), None, asked.sigma)
            for y, lam, slope in zip(asked.y, asked.lam, asked.slope, strict=True)
        ]
    )


def exact_adjoint(
    z: np.ndarray, g: np.ndarray, asked: Rows
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The oracle's v and v . B(z) at the scaled z that kernels get, and the sum of |v_i B_i|."""
    v, dot, size = [], [], []
    for near, right, lam, slope in zip(
        scale(z, asked).astype(np.float64), g, asked.lam, asked.slope, strict=True
    ):
        place, settings = near / float(slope), (float(slope), None, asked.sigma)
        jacobian = oracle.jacobian_row(place, float(lam), *settings)
        v.append(np.linalg.solve(jacobian, right.astype(np.float64)))
        terms = v[-1] * oracle.bias_row(place, *settings)
        dot.append(terms.sum())
        size.append(np.abs(terms).sum())
    return np.stack(v), np.array(dot), np.array(size)


def error_of_z(found: Found, expected: np.ndarray, asked: Rows) -> np.ndarray:
    """Of each row, the largest error relative to max(1, |y_i|)."""
    return (np.abs(found.z - expected) / np.maximum(1, np.abs(asked.y))).max(1)


def error_of_v(v: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Of each row, the largest error relative to the largest |v_i|."""
    return np.abs(v - expected).max(1) / np.abs(expected).max(1)


def worst(names: list[str], errors: np.ndarray, allowed: float) -> list[str]:
    """The rows beyond what is allowed (NaN is), the worst first."""
    wrong = [k for k in np.argsort(-errors) if not errors[k] <= allowed]
    return [f"{names[k]}: {errors[k]:.2g}" for k in wrong]


def gradient(asked: Rows, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(asked.y.shape).astype(np.float32)
