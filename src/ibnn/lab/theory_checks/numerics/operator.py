"""J and its inverse K_inf as operators on rows of units: products and solves, never a matrix."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

import ibnn
from ibnn import sigma as sigmas
from ibnn.coupling.sums import MatrixSums, UniformSums

DENSE_UNITS = 1024  # longest row of which a matrix is made: 8 MB of float64 each


class CoupledRows:
    """The rows a coupling makes of tensors of one shape, and the coupling of a row by itself."""

    def __init__(self, shape: Sequence[int], coupling: ibnn.Coupling) -> None:
        self._dims = tuple(dim % len(shape) for dim in coupling.dims)
        others = [dim for dim in range(len(shape)) if dim not in self._dims]
        self.shape = tuple(shape[dim] for dim in others)
        self.units = tuple(shape[dim] for dim in self._dims)
        self.coupling = copy.copy(coupling)
        self.coupling.dims = tuple(range(-len(self._dims), 0))

    @property
    def last(self) -> tuple[int, ...]:
        """The dims of the units once they stand last."""
        return self.coupling.dims

    def flatten(self, x: Tensor) -> Tensor:
        """As (rows, units)."""
        return x.movedim(self._dims, self.last).reshape(math.prod(self.shape), -1)

    def restore(self, flat: Tensor) -> Tensor:
        return flat.reshape(*self.shape, *self.units).movedim(self.last, self._dims)

    def per_row(self, value: float | Tensor, like: Tensor) -> Tensor:
        """A number, or one for each channel, as one for each row."""
        given = torch.as_tensor(value, dtype=like.dtype, device=like.device).detach()
        given = given.reshape(()) if given.numel() == 1 else given
        return given.expand(self.shape).reshape(-1)


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
        self._rows = CoupledRows(z.shape, ibnn.Uniform(-1) if coupling is None else coupling)
        self._sigma = sigmas.resolve(sigma)
        dtype = torch.float64 if z.dtype == torch.float64 else torch.float32
        self.z = self._rows.flatten(z.detach()).to(dtype)
        self.lam, self._slope = (self._rows.per_row(value, self.z) for value in (lam, slope))

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
        return self._rows.flatten(x).to(self.z.dtype)

    def restore(self, flat: Tensor) -> Tensor:
        """The inverse of `flatten`, for all rows."""
        return self._rows.restore(flat)

    def select(self, index: Tensor | slice) -> BiasOperator:
        part = object.__new__(type(self))
        part._rows, part._sigma = self._rows, self._sigma
        part.z, part.lam, part._slope = self.z[index], self.lam[index], self._slope[index]
        return part

    @property
    def all_pairs(self) -> bool:
        """Whether a product looks at every pair of units, with weights that are at hand."""
        return type(self._rows.coupling.sums) in (UniformSums, MatrixSums)

    def repeat(self, count: int) -> BiasOperator:
        """Every row `count` times, one after the other: for several vectors at the same z."""
        return self.select(torch.arange(self.rows).repeat_interleave(count))

    def jacobian(self, v: Tensor) -> Tensor:
        """J v, row by row: J is symmetric and the derivative of the residual."""
        z, residual = self._left_inverse
        (product,) = torch.autograd.grad(residual, z, v.reshape(z.shape), retain_graph=True)
        return product.reshape(v.shape)

    def inverse(self, g: Tensor) -> Tensor:
        """K_inf g, row by row: the gradient of F."""
        y, z = self._solution
        (product,) = torch.autograd.grad(z, y, g.reshape(y.shape), retain_graph=True)
        return product.reshape(g.shape)

    @cached_property
    def _left_inverse(self) -> tuple[Tensor, Tensor]:
        """z, and the y that it is a solution for, z + lam B(z)."""
        with torch.enable_grad():
            z = self.z.reshape(-1, *self.unit_shape).detach().requires_grad_()
            return z, ibnn.residual(z, torch.zeros_like(z), self.lam, **self._arguments)

    @cached_property
    def _solution(self) -> tuple[Tensor, Tensor]:
        """That y, and z = F(y)."""
        with torch.enable_grad():
            z, y = (value.detach() for value in self._left_inverse)
            y.requires_grad_()
            more = {"start": z, "on_failure": "raise"}
            return y, ibnn.implicit_bias(y, self.lam, **self._arguments, **more)

    @property
    def _arguments(self) -> dict[str, Any]:
        return {"slope": self._slope, "coupling": self._rows.coupling, "sigma": self._sigma}

    @property
    def _weight(self) -> Tensor | None:
        weight = self._rows.coupling.weight(self.z.dtype, self.unit_shape)
        return None if weight is None else weight.detach().to(self.z.device)

    @property
    def diagonal(self) -> Tensor:
        """Of J, by direct sums."""
        sums, weight, shape = self._rows.coupling.sums, self._weight, self.unit_shape
        scaled = self.z * self._slope.unsqueeze(-1)
        heard = sums.pair_sum(scaled, None, weight, 1, self._sigma, shape)
        strength = (self.lam * self._slope).unsqueeze(-1)
        return 1 - strength * (heard - sums.self_weight(weight, shape))

    def dense_jacobian(self) -> Tensor:
        """J as matrices, (rows, units, units), for rows that are not long."""
        if self.units > DENSE_UNITS:
            raise ValueError(
                f"rows have {self.units} units, a matrix is only made up to {DENSE_UNITS}; "
                "use `extreme_eigenvalues`"
            )
        if self.all_pairs:
            scaled = self.z * self._slope.unsqueeze(-1)
            steep = self._sigma.derivative(scaled.unsqueeze(1) - scaled.unsqueeze(2), 1)
            weight = 1 / self.units if self._weight is None else self._weight
            beside = (self.lam * self._slope)[:, None, None] * weight * steep
            return beside + torch.diag_embed(1 - beside.sum(-1))  # rows of J sum to 1
        repeated = self.repeat(self.units)
        identity = torch.eye(self.units, dtype=self.z.dtype).repeat(self.rows, 1)
        matrix = repeated.jacobian(identity).reshape(self.rows, self.units, self.units)
        return (matrix + matrix.mT) / 2  # symmetric but for rounding

    def spectrum(self) -> Tensor:
        """Every eigenvalue of K_inf, (rows, units), ascending, for rows that are not long."""
        return (1 / torch.linalg.eigvalsh(self.dense_jacobian())).sort(-1).values
