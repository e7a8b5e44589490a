"""What an engine is: fast sums and solves for some cases, and a reason where it declines."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ibnn.coupling.sums import PairSums, Products
from ibnn.sigma import Sigma

# the error of a row that `adjoint` finds at a saddle of the energy, where its v is right
AT_SADDLE = 2.0


class EngineError(ValueError):
    """The engine that was asked for cannot serve; the message says why."""


class Case(NamedTuple):
    """What is to be computed, as far as an engine must know to say whether it can.

    Attributes:
        operation: "solve", "adjoint" or "pair_sum".
        sums: those of the coupling: "uniform", "window" or "matrix" by name, or a user's own.
        sigma: the dendritic nonlinearity.
        dtype: of the rows.
        device: "cpu", "cuda", ...
        rows: how many.
        units: the shape of a row.
        order: of a pair sum.

    Examples:
        >>> import ibnn
        >>> tanh = ibnn.sigma.resolve("tanh")
        >>> case = Case("solve", ibnn.Uniform(-1).sums, tanh, torch.float32, "cuda", 8, (256,))
        >>> ibnn.engines()["native"].declines(case)
        'it is for the CPU, not for cuda'
        >>> ibnn.engines()["portable"].declines(case) is None
        True
    """

    operation: str
    sums: PairSums
    sigma: Sigma
    dtype: torch.dtype
    device: str
    rows: int
    units: tuple[int, ...]
    order: int = 0


class RowSolutions(NamedTuple):
    """z, and of each row the largest residual of slope * z, the steps, and whether it is solved."""

    z: Tensor
    residual: Tensor
    steps: Tensor
    solved: Tensor


class AdjointSolutions(NamedTuple):
    """v with J(z) v = g, and of each row v's relative error, as far as the true residual J v - g
    shows it, and v . B(z)."""

    v: Tensor
    error: Tensor
    dot: Tensor


class Engine:
    """Serves some cases. Rows are independent: (rows, units) in, (rows, units) out.

    `strength` is lam * slope of each row, to `solve` in float64 where the device has it. y and z of
    `solve` are before the slope; z of everything else is slope * z, in units where sigma has slope
    1.
    """

    name: str
    # quicker solves where all rows have the same strength, slope and atol, as functions of a module
    # like `native.scalar_lam`
    scalar_lam: Any = None
    # whether it has `explicit_step` and its gradient, each in one call
    takes_steps = False

    def declines(self, case: Case) -> str | None:
        """Why this engine cannot serve, in a few words; None if it can.

        Args:
            case: what is to be computed.
        """
        raise NotImplementedError

    def is_final(self, case: Case) -> bool:
        """Whether what it leaves unsolved stays so on a GPU: no solver is asked after it, which
        would have to wait for the device. Rows whose slope is not positive come back as NaN then.

        Args:
            case: what is to be computed.
        """
        return False

    def descends(self, case: Case) -> bool:
        """Whether above the threshold `solve` finds the minimum that descent from y reaches, and
        `adjoint` the gradient there, with an error of 1 where J is not positive definite, and of
        `AT_SADDLE` where it is not because equal units would part; uniform weights.

        Args:
            case: what is to be computed.
        """
        return False

    def solve(
        self,
        case: Case,
        y: Tensor,
        strength: Tensor,
        slope: Tensor,
        weight: Tensor | None,
        atol: Tensor,
        resolution: float,
    ) -> RowSolutions:
        """z such that slope * z solves the equation of slope * y. Rows that are not finite come
        back as NaN (residual inf), rows of strength 0 as they were.

        Args:
            case: what is to be computed.
            y: the input, (rows, units).
            strength: lam * slope of each row.
            slope: of each row.
            weight: what the coupling's `weight` returned.
            atol: the error allowed in slope * z, of each row.
            resolution: the same as a fraction of a row's range; the smaller one counts.
        """
        raise NotImplementedError

    def adjoint(
        self, case: Case, z: Tensor, g: Tensor, strength: Tensor, weight: Tensor | None
    ) -> AdjointSolutions:
        """v with J(z) v = g, J v = v + strength (P_1(z, v) - v P_1(z, 1)).

        Args:
            case: what is to be computed.
            z: the solution, (rows, units).
            g: the gradient that arrives at it.
            strength: lam * slope of each row.
            weight: what the coupling's `weight` returned.
        """
        raise NotImplementedError

    def pair_sum(self, case: Case, z: Tensor, a: Tensor | None, weight: Tensor | None) -> Tensor:
        """P_n(z, a)_i = sum_k w_ik a_k sigma_n(z_k - z_i), n = case.order.

        Args:
            case: what is to be computed.
            z: (rows, units).
            a: of the same shape, or None for ones.
            weight: what the coupling's `weight` returned.
        """
        raise NotImplementedError

    def products(self, case: Case, z: Tensor, weight: Tensor | None) -> Products:
        """v -> P_1(z, v), for many v at one z.

        Args:
            case: that of a pair sum of order 1.
            z: (rows, units).
            weight: what the coupling's `weight` returned.
        """
        return lambda v: self.pair_sum(case, z, v, weight)

    def bias_change(self, case: Case, z: Tensor, v: Tensor, weight: Tensor | None) -> Tensor:
        """P_1(z, v) - v P_1(z, 1): how B(z) changes as z moves by v.

        Args:
            case: that of a pair sum of order 1.
            z: (rows, units).
            v: of the same shape.
            weight: what the coupling's `weight` returned.
        """
        return self.pair_sum(case, z, v, weight) - v * self.pair_sum(case, z, None, weight)

    def slope_change(self, case: Case, z: Tensor) -> Tensor | None:
        """(1/D) sum_k (z_k - z_i) s'(z_k - z_i): how B changes as the slope grows, times the slope.
        None where it has no such sum; uniform weights.

        Args:
            case: that of a pair sum of order 1.
            z: (rows, units).
        """
        return None

    def explicit_step(
        self, case: Case, y: Tensor, lam: float, slope: float, kept: bool
    ) -> tuple[Tensor, Tensor | None]:
        """z = y - lam B(slope * y) with uniform weights, and slope * y if that is to be `kept`.

        Args:
            case: that of a pair sum.
            y: (rows, units), before the slope.
            lam: the same for all rows.
            slope: the same for all rows.
            kept: whether gradients will be asked for.
        """
        raise NotImplementedError

    def explicit_gradient(
        self, case: Case, z: Tensor, g: Tensor, strength: float
    ) -> tuple[Tensor, Tensor]:
        """g - strength (P_1(z, g) - g P_1(z, 1)), and g . B(z) of each row; uniform weights.

        Args:
            case: that of a pair sum.
            z: slope * y as `explicit_step` has returned it.
            g: the gradient that arrives at its z.
            strength: lam * slope.
        """
        raise NotImplementedError


def case_of(
    operation: str, rows: Tensor, sums: PairSums, sigma: Sigma, units: Sequence[int], order: int = 0
) -> Case:
    """The case of a computation on these rows."""
    return Case(
        operation, sums, sigma, rows.dtype, rows.device.type, len(rows), tuple(units), order
    )
