"""The Lanczos method for many rows at once: the two ends of a spectrum from products alone."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

STEPS = (
    80  # exact up to 80 units; ends of 600 are known to 1e-2 (tests), which certificates can bear
)
BASIS_NUMBERS = 1 << 24  # numbers held for one group of rows: 128 MB of float64


@dataclass(frozen=True)
class Ends:
    """Per row: the smallest and largest eigenvalue found, and how far the true ones can be.

    A Ritz value is never outside the spectrum, and some eigenvalue lies within `error` of it.
    """

    low: Tensor
    high: Tensor
    error: Tensor
    steps: int


def extreme_eigenvalues(
    matrix: Callable[[Tensor], Tensor],
    rows: int,
    units: int,
    *,
    generator: torch.Generator,
    dtype: torch.dtype = torch.float64,
    rtol: float = 1e-6,
    steps: int = STEPS,
    without_mean: bool = False,
) -> Ends:
    """Both ends of the spectrum of a symmetric `matrix`, (rows, units) -> (rows, units).

    Stops when every row's ends are known to `rtol` of its largest eigenvalue, or after `steps`.
    `without_mean` leaves out the direction (1, ..., 1), which must be an eigenvector.
    Memory is `steps` vectors per row.
    """
    q = torch.randn(rows, units, generator=generator, dtype=torch.float64).to(dtype)
    q = _project(q, None, without_mean)
    q = q / q.norm(dim=-1, keepdim=True).clamp_min(torch.finfo(dtype).tiny)
    most = max(1, min(steps, units - without_mean))
    basis = q.new_empty(rows, most, units)
    triangle = q.new_zeros(rows, most, most)
    alive = torch.ones(rows, dtype=torch.bool)
    ends = None
    for step in range(most):
        basis[:, step] = q
        image = matrix(q)
        alpha = (q * image).sum(-1)
        # a row that has seen everything repeats its first value: inside its own spectrum
        triangle[:, step, step] = torch.where(alive, alpha, triangle[:, 0, 0])
        # twice is enough (Kahan), and keeps copies of converged eigenvalues away
        rest = _project(image, basis[:, : step + 1], without_mean)
        rest = _project(rest, basis[:, : step + 1], without_mean)
        beta = torch.where(alive, rest.norm(dim=-1), 0)
        scale = triangle[:, : step + 1, : step + 1].abs().amax((-2, -1))
        alive = alive & (beta > 100 * torch.finfo(dtype).eps * scale)
        beta = torch.where(alive, beta, 0)
        if step + 1 == most or step % 5 == 4 or not bool(alive.any()):
            ends = _ends(triangle[:, : step + 1, : step + 1], beta, step + 1)
            size = torch.maximum(ends.low.abs(), ends.high.abs())
            if bool((ends.error <= rtol * size).all()):
                break
        if step + 1 < most:
            triangle[:, step, step + 1] = triangle[:, step + 1, step] = beta
            q = torch.where(alive.unsqueeze(-1), rest / beta.clamp_min(1e-300).unsqueeze(-1), 0)
    assert ends is not None
    return ends


def groups(rows: int, units: int, steps: int = STEPS) -> list[slice]:
    """Cuts rows into groups whose Lanczos basis stays within `BASIS_NUMBERS`."""
    size = max(1, BASIS_NUMBERS // max(1, units * min(steps, units)))
    return [slice(start, min(rows, start + size)) for start in range(0, rows, size)]


def _project(x: Tensor, basis: Tensor | None, without_mean: bool) -> Tensor:
    if without_mean:
        x = x - x.mean(-1, keepdim=True)
    if basis is None:
        return x
    return x - (basis.mT @ (basis @ x.unsqueeze(-1))).squeeze(-1)


def _ends(triangle: Tensor, beta: Tensor, steps: int) -> Ends:
    values, vectors = torch.linalg.eigh(triangle)
    # |A x - theta x| of a Ritz pair is beta times the last number of its vector
    residual = beta.unsqueeze(-1) * vectors[..., -1, :].abs()
    error = torch.maximum(residual[..., 0], residual[..., -1])
    return Ends(values[..., 0], values[..., -1], error, steps)
