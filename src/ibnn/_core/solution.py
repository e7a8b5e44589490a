"""What a solve comes back with, and how its failures are told."""

import itertools
import warnings
from dataclasses import dataclass
from weakref import WeakValueDictionary

from torch import Tensor


class ConvergenceWarning(UserWarning):
    """Some rows were not solved to the tolerance asked for."""


class ConvergenceError(RuntimeError):
    """Some rows were not solved to the tolerance asked for, and `on_failure="raise"`."""


@dataclass(frozen=True)
class Solution:
    """z, and for each row whether it was solved, its largest residual and the steps it took."""

    value: Tensor
    converged: Tensor
    residual: Tensor
    steps: Tensor


class LastSolve:
    """How the latest solve of a layer went, over all its rows."""

    def __init__(self, converged: Tensor, residual: Tensor, steps: Tensor) -> None:
        self._rows = (converged.detach(), residual.detach(), steps.detach())

    @property
    def converged(self) -> float:
        """Share of the rows that were solved."""
        rows = self._rows[0]
        return float(rows.float().mean()) if rows.numel() else 1.0

    @property
    def residual(self) -> float:
        """Worst residual of a row."""
        rows = self._rows[1]
        return float(rows.max()) if rows.numel() else 0.0

    @property
    def steps(self) -> int:
        """Most steps a row took."""
        rows = self._rows[2]
        return int(rows.max()) if rows.numel() else 0

    def __repr__(self) -> str:
        return (
            f"LastSolve(converged={self.converged:.1%}, residual={self.residual:.2g}, "
            f"steps={self.steps})"
        )


class Monitor:
    """Where a layer's solves leave their record; warns once.

    The solve runs inside an opaque op that only numbers and texts can enter, so a monitor is passed
    by its number. A copy of a layer gets a monitor of its own.
    """

    def __init__(self) -> None:
        self.number = next(_numbers)
        self.last_solve: LastSolve | None = None
        self.warned = False
        _monitors[self.number] = self

    def __deepcopy__(self, memo: object) -> "Monitor":
        return Monitor()

    def __reduce__(self) -> tuple[type["Monitor"], tuple[()]]:
        return Monitor, ()


_numbers = itertools.count(1)
_monitors: WeakValueDictionary[int, Monitor] = WeakValueDictionary()


def monitor(number: int) -> Monitor | None:
    return _monitors.get(number)


def report(
    what: str, failed: Tensor, residual: Tensor, on_failure: str, watcher: Monitor | None
) -> None:
    """Tells of failed rows as `on_failure` says: "raise", "warn" (once per monitor) or "ignore"."""
    if on_failure == "ignore" or not bool(failed.any()):
        return
    finite = residual[failed & residual.isfinite()]
    broken = int(failed.sum()) - finite.numel()
    parts = []
    if finite.numel():
        parts.append(
            f"{finite.numel()} of {failed.numel()} rows did not converge "
            f"(worst residual {float(finite.max()):.3g})"
        )
    if broken:
        parts.append(f"{broken} of {failed.numel()} rows are not finite")
    message = f"{what}: " + ", ".join(parts)
    if on_failure == "raise":
        raise ConvergenceError(message)
    if watcher is None or not watcher.warned:
        warnings.warn(message, ConvergenceWarning, stacklevel=2)
    if watcher is not None:
        watcher.warned = True
