"""The bank's problems put to the library, and its answers held against the bank's."""

from typing import Any

import numpy as np
import torch

import ibnn
from tests import bank

DTYPES = {"float32": torch.float32, "float64": torch.float64}


def coupling(plain: bank.Coupling) -> ibnn.Coupling:
    """The library's own object for a coupling of the bank."""
    if plain.kind == "window":
        return ibnn.Window(plain.kernel_size, plain.profile, plain.std)
    if plain.kind == "dense":
        return ibnn.Dense(torch.from_numpy(plain.weight))
    return ibnn.Uniform(-1)


def tensor(batch: bank.Batch, precision: str = "float64") -> torch.Tensor:
    y = torch.from_numpy(batch.y).to(DTYPES[precision])
    return y.reshape(len(y), *batch.row_shape)


def solve(batch: bank.Batch, precision: str, **options: Any) -> ibnn.Solution:
    return ibnn.solve(
        tensor(batch, precision),
        batch.lam,
        batch.slope,
        coupling=coupling(batch.coupling),
        sigma=batch.sigma,
        **{"on_failure": "ignore", **options},
    )


def excess(batch: bank.Batch, value: torch.Tensor, precision: str) -> np.ndarray:
    """The worst error of each row as a multiple of the one promised: right at 1 or less."""
    z = value.detach().reshape(batch.y.shape).double().numpy()
    # the bank's own answer is known up to its tolerance, and float64 rounds its 1e-10 too
    allowed = bank.allowed_error(batch.y, precision) + batch.tolerance
    return (np.abs(z - batch.expected) / allowed).max(axis=1)


def wrong_rows(batch: bank.Batch, value: torch.Tensor, precision: str) -> list[str]:
    """Names, with their errors, of the rows that miss the promise (NaN does)."""
    worst = excess(batch, value, precision)
    return [
        f"{problem}: {share:.2g} of the allowed error"
        for problem, share in zip(batch.problems, worst, strict=True)
        if not share <= 1
    ]
