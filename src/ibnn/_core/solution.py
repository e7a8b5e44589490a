"""What a solve comes back with, and how its failures are reported."""

import itertools
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from weakref import WeakValueDictionary

from torch import Tensor, nn

from ibnn._core import deferred_failures


class ConvergenceWarning(UserWarning):
    """Some rows were not solved to the requested tolerance.

    Examples:
        Silence it for one layer, or make it an error everywhere:

        >>> import warnings
        >>> import ibnn
        >>> layer = ibnn.Linear(4, 8, on_failure="ignore")
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("error", ibnn.ConvergenceWarning)
    """


class ConvergenceError(RuntimeError):
    """Some rows were not solved to the requested tolerance, and `on_failure="raise"`.

    Examples:
        >>> import ibnn, torch
        >>> y = torch.linspace(-1, 1, 8)
        >>> try:
        ...     ibnn.implicit_bias(y, -0.5, max_steps=1, on_failure="raise")
        ... except ibnn.ConvergenceError as error:
        ...     print(error)
        implicit bias: 1 of 1 rows did not converge (worst residual ...)
    """


class ThresholdWarning(UserWarning):
    """lam is beyond its bounds, or beyond the threshold up to which the solution is unique.

    Examples:
        >>> import warnings
        >>> import ibnn
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     layer = ibnn.Linear(4, 8, lam=0.3, learn_lam=False)  # above 1 / slope
        >>> caught[0].category.__name__
        'ThresholdWarning'
    """


@dataclass(frozen=True)
class Solution:
    """What `ibnn.solve` returns.

    Attributes:
        value: z.
        converged: of each row, whether it was solved.
        residual: of each row, its largest one.
        steps: of each row, how many it took.
        unique: of each row, whether it is proven that no other solution is near: for lam <= 0 and
            below the threshold (that of weights which are not uniform is found by a bound, and may
            be somewhat lower than `uniqueness_threshold`); above it, where the energy is strictly
            convex around z. Never where sigma is not certified, unless lam = 0. On a GPU and inside
            torch.func and torch.compile only the threshold is checked.

    Examples:
        >>> import ibnn, torch
        >>> found = ibnn.solve(torch.tensor([[-0.1, 0.05, 0.1], [0.0, 0.0, 1.0]]), -0.2)
        >>> found.value
        tensor([[-0.0256,  0.0288,  0.0468],
                [ 0.0667,  0.0667,  0.8667]])
        >>> found.converged
        tensor([True, True])
    """

    value: Tensor
    converged: Tensor
    residual: Tensor
    steps: Tensor
    unique: Tensor


class LastSolve:
    """How the latest solve of a layer went, over all its rows."""

    def __init__(
        self,
        rows: Callable[[], tuple[Tensor, Tensor, Tensor]],  # their residual, steps, converged
        unique: Tensor | float | None = None,  # of each row, or the fraction of them
        slope: float = 1.0,  # which the residual still carries
    ) -> None:
        self._rows, self._unique, self._slope = rows, unique, slope

    @property
    def converged(self) -> float:
        """Fraction of the rows that were solved."""
        return _fraction(self._rows()[2])

    @property
    def residual(self) -> float:
        """Worst residual of a row."""
        rows = self._rows()[0]
        return float(rows.max()) / self._slope if rows.numel() else 0.0

    @property
    def steps(self) -> int:
        """Most steps a row took."""
        rows = self._rows()[1]
        return int(rows.max()) if rows.numel() else 0

    @property
    def unique(self) -> float | None:
        """Fraction of the rows with no other solution near; see `Solution`. None on a GPU, which
        is not waited for."""
        return _fraction(self._unique) if isinstance(self._unique, Tensor) else self._unique

    def __repr__(self) -> str:
        return (
            f"LastSolve(converged={self.converged:.1%}, residual={self.residual:.2g}, "
            f"steps={self.steps})"
        )


def _fraction(rows: Tensor) -> float:
    return float(rows.float().mean()) if rows.numel() else 1.0


class Monitor:
    """Where a layer's solves leave their record; warns once.

    The solve runs inside an opaque op that only numbers and texts can enter, so a monitor is passed
    by its number. A copy of a layer gets a monitor of its own.
    """

    def __init__(self) -> None:
        self.number = next(_numbers)
        self._last_solve: LastSolve | None = None
        self.warned = False
        self.layer: Callable[[], nn.Module | None] = _no_layer  # a weak reference
        monitors[self.number] = self

    @property
    def last_solve(self) -> LastSolve | None:
        """How the latest solve went. Asking also reports failures not reported yet (on a GPU)."""
        deferred_failures.poll(wait=True)
        return self._last_solve

    @last_solve.setter
    def last_solve(self, solve: LastSolve) -> None:
        self._last_solve = solve

    def __deepcopy__(self, memo: object) -> "Monitor":
        return Monitor()

    def __reduce__(self) -> tuple[type["Monitor"], tuple[()]]:
        return Monitor, ()


def _no_layer() -> None:
    return None


_numbers = itertools.count(1)
monitors: WeakValueDictionary[int, Monitor] = WeakValueDictionary()


def report(
    what: str,
    failed: Tensor,
    residual: Tensor,
    on_failure: str,
    monitor: Monitor | None,
    at_saddle: Tensor | None = None,
) -> None:
    """Reports failed rows as `on_failure` says: "raise", "warn" (once per monitor) or "ignore".
    Of those `at_saddle` only this is said.

    On a GPU a warning comes when the flag has reached the host; nothing waits for it.
    """
    if on_failure == "ignore" or (on_failure == "warn" and monitor is not None and monitor.warned):
        return
    if on_failure == "warn" and deferred_failures.is_asynchronous(failed):
        deferred_failures.poll()
        number = 0 if monitor is None else monitor.number
        deferred_failures.defer(
            failed.any(),
            lambda: _tell(what, failed, residual, "warn", monitors.get(number), at_saddle),
        )
    elif bool(failed.any()):
        _tell(what, failed, residual, on_failure, monitor, at_saddle)


def _tell(
    what: str,
    failed: Tensor,
    residual: Tensor,
    on_failure: str,
    monitor: Monitor | None,
    at_saddle: Tensor | None,
) -> None:
    if monitor is not None and monitor.warned and on_failure == "warn":
        return
    rows, parts = failed.numel(), []
    if at_saddle is not None and bool(at_saddle.any()):
        parts.append(
            f"{int(at_saddle.sum())} of {rows} rows are at a saddle of the energy "
            "(gradients are right while equal units stay equal)"
        )
        failed = failed & ~at_saddle
    finite = residual[failed & residual.isfinite()]
    broken = int(failed.sum()) - finite.numel()
    if finite.numel():
        worst = float(finite.max())
        parts.append(
            f"{finite.numel()} of {rows} rows did not converge (worst residual {worst:.3g})"
        )
    if broken:
        parts.append(f"{broken} of {rows} rows are not finite")
    layer = None if monitor is None else monitor.layer()
    where = "" if layer is None else f" of {_name_of(layer)}"
    message = f"{what}{where}: " + ", ".join(parts)
    if on_failure == "raise":
        raise ConvergenceError(message)
    if monitor is not None:
        monitor.warned = True
    warn_user(message, ConvergenceWarning)


def warn_user(message: str, category: type[Warning]) -> None:
    """A warning that points to the user's own line, not to ibnn's or torch's."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_inside(frame):
        frame = frame.f_back
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    name = frame.f_globals.get("__name__", "<unknown>")
    warnings.warn_explicit(
        message, category, frame.f_code.co_filename, frame.f_lineno, name, registry
    )


def _is_inside(frame: FrameType) -> bool:
    package, _, rest = frame.f_globals.get("__name__", "").partition(".")
    return package in ("torch", "functools") or (package == "ibnn" and not rest.startswith("lab"))


def _name_of(layer: nn.Module) -> str:
    """The layer as its model knows it, where a model's forward is being run; else its class."""
    known = f"a {type(layer).__name__}"
    frame = sys._getframe(1)
    while frame is not None:
        model = frame.f_locals.get("self")
        if isinstance(model, nn.Module) and model is not layer:
            name = next((name for name, m in model.named_modules() if m is layer), None)
            if name is not None:  # the outermost model has the whole name
                known = f"layer {name!r} ({type(layer).__name__})"
        frame = frame.f_back
    return known
