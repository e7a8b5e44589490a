"""The method: every choice of a solve that is not a tensor, as one line of text.

Opaque ops take tensors, numbers and text only. A method made of built-in parts can be read back in
another process (an exported program); the user's own objects are found while they are alive.
"""

from dataclasses import dataclass
from functools import lru_cache

from ibnn import sigma as sigmas
from ibnn import solver as solvers
from ibnn.sigma import Sigma
from ibnn.solver import Solver

ADJOINTS = ("implicit", "unrolled", "jfb")
ON_FAILURE = ("raise", "warn", "ignore")


@dataclass(frozen=True)
class Method:
    kernel: str
    sigma_key: str
    solver_key: str
    adjoint: str
    on_failure: str
    atol: float
    rtol: float
    max_steps: int
    monitor: int

    @property
    def sigma(self) -> Sigma:
        return sigmas.lookup(self.sigma_key)

    @property
    def solver(self) -> Solver:
        return solvers.lookup(self.solver_key)


def write(
    kernel: str,
    sigma: str,
    solver: str,
    adjoint: str,
    on_failure: str,
    atol: float | str,
    rtol: float | str,
    max_steps: int | None,
    monitor: int,
) -> str:
    """max_steps None is the solver's own: a compiler that takes numbers for variables could not
    write it down."""
    return f"{kernel} {sigma} {solver} {adjoint} {on_failure} {atol} {rtol} {max_steps} {monitor}"


@lru_cache(maxsize=1024)
def read(text: str) -> Method:
    parts = text.split(" ")
    kernel, sigma, solver, adjoint, on_failure, atol, rtol, max_steps, monitor = parts
    return Method(
        kernel,
        sigma,
        solver,
        adjoint,
        on_failure,
        float(atol),
        float(rtol),
        solvers.lookup(solver).max_steps if max_steps == "None" else int(max_steps),
        int(monitor),
    )


class OwnParts(str):
    """A method with parts of the user's own: they live as long as it does, so that a graph that
    holds it can still go backward."""

    parts: tuple[Sigma, Solver]


def kernel_of(text: str) -> str:
    return text.split(" ")[0]


def adjoint_of(text: str) -> str:
    return text.split(" ")[3]


def solver_of(text: str) -> str:
    return text.split(" ")[2]
