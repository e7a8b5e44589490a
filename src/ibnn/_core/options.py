"""How to solve: every choice of a solve that is not a tensor, made and checked once."""

import math
from dataclasses import dataclass, field, fields
from functools import cached_property
from numbers import Integral, Real
from typing import Any

import torch

from ibnn import engine as engines
from ibnn import sigma as sigmas
from ibnn import solver as solvers
from ibnn._checks import is_number, shown
from ibnn._core.solution import Monitor, monitors
from ibnn._registry import registry_cache
from ibnn.coupling import sums as pair_sums
from ibnn.coupling.sums import PairSums
from ibnn.sigma import Sigma
from ibnn.solver import Solver

ADJOINTS = ("implicit", "unrolled", "jfb")
ON_FAILURE = ("raise", "warn", "ignore")


@dataclass(frozen=True)
class SolveOptions:
    """What `ibnn.implicit_bias` was told beside its tensors, with its parts resolved.

    An op of torch takes tensors, numbers and text only, so the options have a `text` that `read`
    turns back into them: built-in parts in any process (an exported program), a user's own while
    they are alive. A new option is a field here, how it is read back (`_PLAIN`), and a keyword of
    the functions, the layers (`nn/`) and `convert`.
    """

    sums: PairSums
    sigma: Sigma = sigmas.TANH
    solver: Solver = solvers.NEWTON
    adjoint: str = "implicit"
    engine: str | None = None
    atol: float | None = None
    rtol: float | None = None
    max_steps: int | None = None
    on_failure: str = "warn"
    monitor: int = 0  # the number of the layer's `Monitor`
    _text: str = field(init=False, compare=False, repr=False, default="")
    _exported_text: str = field(init=False, compare=False, repr=False, default="")

    def __post_init__(self) -> None:
        if self.adjoint not in ADJOINTS:
            raise ValueError(f"adjoint={self.adjoint!r} is not known; expected one of {ADJOINTS}")
        if self.on_failure not in ON_FAILURE:
            raise ValueError(
                f"on_failure={self.on_failure!r} is not known; expected one of {ON_FAILURE}"
            )
        if self.engine is not None:
            engines.check_name(self.engine)
        for name, value in (("atol", self.atol), ("rtol", self.rtol)):
            if value is not None and not (is_number(value, Real) and 0 <= value < math.inf):
                raise ValueError(f"{name} must be a non-negative number, got {shown(value)}")
            object.__setattr__(self, name, None if value is None else float(value))
        steps = self.max_steps
        if steps is not None and not (is_number(steps, Integral) and steps >= 0):
            raise ValueError(f"max_steps must be a non-negative int, got {shown(steps)}")
        object.__setattr__(self, "max_steps", None if steps is None else int(steps))
        parts = (
            f"sums={pair_sums.REGISTRY.key(self.sums)}",
            f"sigma={sigmas.REGISTRY.key(self.sigma)}",
            f"solver={solvers.key(self.solver)}",
        )
        numbers = [f"{name}={getattr(self, name)}" for name in _PLAIN if name != "monitor"]
        text = " ".join([*parts, *numbers])
        object.__setattr__(self, "_text", f"{text} monitor={self.monitor}")
        object.__setattr__(self, "_exported_text", f"{text} monitor=0")

    @property
    def text(self) -> str:
        """The options as an op takes them. In an exported program there is no monitor: its number
        would be that of another layer in the process which loads the program."""
        return self._exported_text if _is_exporting() else self._text

    @property
    def is_uniform(self) -> bool:
        """Whether every pair weighs 1/D; a coupling may have no tensor of weights and sums of its
        own, which are something else."""
        return self.sums is pair_sums.UNIFORM

    @property
    def steps_allowed(self) -> int:
        return self.solver.max_steps if self.max_steps is None else self.max_steps

    @cached_property
    def uses_engines(self) -> bool:
        """Whether an engine may solve in place of the solver, whose own steps nobody asks for."""
        return self.adjoint != "unrolled" and self.max_steps is None and self.solver.allows_engine

    @property
    def layer_monitor(self) -> Monitor | None:
        """Where the solve leaves its record, while the layer it belongs to is alive."""
        return monitors.get(self.monitor)


# fields that are written as they are, and how each is read back
_PLAIN = {
    "adjoint": str,
    "engine": str,
    "atol": float,
    "rtol": float,
    "max_steps": int,
    "on_failure": str,
    "monitor": int,
}
assert {f.name for f in fields(SolveOptions) if f.init} == {*_PLAIN, "sums", "sigma", "solver"}
# (torch 2.6 cannot tell)
_is_exporting = getattr(torch.compiler, "is_exporting", lambda: False)


@registry_cache
def read(text: str) -> SolveOptions:
    """The options with this `text`."""
    values: dict[str, Any] = dict(part.split("=", 1) for part in text.split(" "))
    plain: dict[str, Any] = {
        name: None if values[name] == "None" else kind(values[name])
        for name, kind in _PLAIN.items()
    }
    return SolveOptions(
        sums=pair_sums.REGISTRY.lookup(values["sums"]),
        sigma=sigmas.REGISTRY.lookup(values["sigma"]),
        solver=solvers.lookup(values["solver"]),
        **plain,
    )
