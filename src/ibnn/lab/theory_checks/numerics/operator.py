"""J and its inverse K_inf as operators on rows of units: products and solves, never a matrix."""

from __future__ import annotations

import torch
from torch import Tensor

import ibnn
from ibnn._core import ops
from ibnn._core.rows import Rows
from ibnn.coupling.sums import MatrixSums, UniformSums
from ibnn.functional import solve_options

DENSE_UNITS = 1024  # longest row of which a matrix is made: 8 MB of float64 each


class BiasOperator:
    """J = I + lam DB(z) of every row of `z`, and K_inf = J^-1, the derivative of F: y -> z.

    Arguments as of `ibnn.implicit_bias`, with its result `z` in the place of `y`. Vectors are
    rows: (rows, units), in the order of `flatten`. Memory is a few times that of z.

    >>> z = torch.tensor([[-0.1, 0.0, 0.1]], dtype=torch.float64)
    >>> operator = BiasOperator(z, -0.1)
    >>> v = torch.ones(1, 3, dtype=torch.float64)
    >>> operator.inverse(v).round(decimals=9)  # a shift of all units passes unchanged
    tensor([[1., 1., 1.]], dtype=torch.float64)
    """

    def __init__(
        self,
        z: Tensor,
        lam: float | Tensor,
        slope: float | Tensor = 10.0,
        *,
        coupling: ibnn.Coupling | None = None,
        sigma: str | ibnn.Sigma = "tanh",
    ) -> None:
        coupling = ibnn.Uniform(-1) if coupling is None else coupling
        self._options = solve_options(coupling, sigma, on_failure="raise")
        rows = Rows(z, coupling)
        weight = coupling.weight(rows.dtype, rows.units)
        self._weight = None if weight is None else weight.detach().to(z.device)
        lam_rows = rows.per_row("lam", lam).detach()
        slope_rows = rows.per_row("slope", slope).detach()
        self._set(rows, rows.flatten(z.detach()), lam_rows, slope_rows)

    def _set(self, rows: Rows, z: Tensor, lam: Tensor, slope: Tensor) -> None:
        self._rows, self.z, self.lam, self._slope = rows, z, lam, slope
        self._scaled, self._strength = z * slope.unsqueeze(-1), lam * slope
        system = ops.system(
            self._scaled, self._strength, slope, self._weight, rows.units, self._options
        )
        self._jacobian, self.diagonal = system.linearised(self._scaled)  # of J

    @property
    def rows(self) -> int:
        """How many independent problems."""
        return self.z.shape[0]

    @property
    def units(self) -> int:
        """D: the units of each."""
        return self.z.shape[1]

    @property
    def unit_shape(self) -> tuple[int, ...]:
        """The shape of a row before it was flattened."""
        return self._rows.units

    def flatten(self, x: Tensor) -> Tensor:
        """A tensor of z's own shape as (rows, units)."""
        return self._rows.flatten(x)

    def restore(self, flat: Tensor) -> Tensor:
        """The inverse of `flatten`, for all rows."""
        return self._rows.restore(flat)

    def select(self, index: Tensor | slice) -> BiasOperator:
        """The operator of some of the rows."""
        part = object.__new__(type(self))
        part._options, part._weight = self._options, self._weight
        part._set(self._rows, self.z[index], self.lam[index], self._slope[index])
        return part

    @property
    def all_pairs(self) -> bool:
        """Whether a product looks at every pair of units, with weights that are at hand."""
        return type(self._options.sums) in (UniformSums, MatrixSums)

    def repeat(self, count: int) -> BiasOperator:
        """Every row `count` times, one after the other: for several vectors at the same z."""
        return self.select(torch.arange(self.rows).repeat_interleave(count))

    def jacobian(self, v: Tensor) -> Tensor:
        """J v, row by row."""
        return self._jacobian(v)

    def inverse(self, g: Tensor) -> Tensor:
        """K_inf g, row by row, by the library's own linear solve."""
        return ops.solve_adjoint(
            self._scaled,
            g.contiguous(),
            self._strength,
            self._weight,
            self._rows.units,
            self._options.text,
        )[0]

    def dense_jacobian(self) -> Tensor:
        """J as matrices, (rows, units, units), for rows that are not long."""
        self._refuse_long_rows()
        if self.all_pairs:
            x = self._scaled.unsqueeze(1) - self._scaled.unsqueeze(2)
            weight = 1 / self.units if self._weight is None else self._weight
            beside = self._strength[:, None, None] * weight * self._options.sigma.derivative(x, 1)
            return beside + torch.diag_embed(1 - beside.sum(-1))  # rows of J sum to 1
        repeated = self.repeat(self.units)
        identity = torch.eye(self.units, dtype=self.z.dtype).repeat(self.rows, 1)
        matrix = repeated.jacobian(identity).reshape(self.rows, self.units, self.units)
        return (matrix + matrix.mT) / 2  # symmetric but for rounding

    def dense(self) -> Tensor:
        """K_inf as matrices, (rows, units, units), for rows that are not long."""
        return torch.linalg.inv(self.dense_jacobian())

    def spectrum(self) -> Tensor:
        """Every eigenvalue of K_inf, (rows, units), ascending, for rows that are not long."""
        return (1 / torch.linalg.eigvalsh(self.dense_jacobian())).sort(-1).values

    def _refuse_long_rows(self) -> None:
        if self.units > DENSE_UNITS:
            raise ValueError(
                f"rows have {self.units} units, a matrix is only made up to {DENSE_UNITS}; "
                "use `extreme_eigenvalues`"
            )
