"""What a coupling is: how y splits into rows, the weights between their units, and their sums."""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ibnn._checks import shown
from ibnn.coupling.sums import MATRIX, PairSums


class Coupling(nn.Module):
    """The weights w_ik >= 0, symmetric, between the units of a row.

    `dims` says which dims of `y` are units; every index of the others is a row of its own. `sums`
    computes with what `weight` returns: faster ones are a `PairSums` of its own (see
    `ibnn.coupling.sums`).

    Examples:
        A coupling of your own needs its weights and nothing else; it gets sums that take O(D^2):

        >>> import ibnn
        >>> class Ring(ibnn.Coupling):
        ...     "Every unit is coupled to its two neighbors on a ring."
        ...     def weight(self, dtype=None, units=None):
        ...         here = torch.eye(units[0], dtype=dtype)
        ...         return (here.roll(1, 0) + here.roll(-1, 0)) / 2
        >>> ibnn.implicit_bias(torch.tensor([0.0, 0.1, 0.0, 0.3]), -0.2, coupling=Ring())
        tensor([0.0768, 0.0846, 0.0768, 0.1618])
    """

    dims: tuple[int, ...] = (-1,)
    sums: ClassVar[PairSums] = MATRIX

    def weight(
        self, dtype: torch.dtype | None = None, units: Sequence[int] | None = None
    ) -> Tensor | None:
        """The weights as a tensor gradients flow through; None where there is nothing to store.

        Args:
            dtype: of the solve.
            units: the shape of a row.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a method weight(dtype, units)")

    def largest_eigenvalue(self) -> "float | Tensor":
        """mu, (a bound on) the largest eigenvalue of the Laplacian of w: uniqueness needs
        lam * slope * mu < 1. At most 2 where no row of w sums to more than 1."""
        return 2.0

    def for_layer(self, spatial_dims: int) -> "Coupling":
        """This coupling inside a convolution.

        Args:
            spatial_dims: 1, 2 or 3, of the convolution.
        """
        return self

    def check_units(self, units: Sequence[int]) -> None:
        """Raises ValueError where y's unit dims do not fit this coupling.

        Args:
            units: the shape of a row.
        """

    def config(self) -> dict[str, Any]:
        """What was chosen, as JSON can hold it: compared when a checkpoint is loaded."""
        return {"kind": type(self).__name__, "settings": self.extra_repr()}

    def checked_weight(self, dtype: torch.dtype, units: Sequence[int]) -> Tensor | None:
        """`weight`, which must fit the theory where it is a user's own.

        Args:
            dtype: of the solve.
            units: the shape of a row.
        """
        weight = self.weight(dtype, units)
        if type(self).__module__.startswith("ibnn.coupling"):
            return weight
        if self.sums is not MATRIX:
            return None if weight is None else weight.to(dtype)
        name, size = type(self).__name__, torch.Size(units).numel()
        if not isinstance(weight, Tensor):
            raise TypeError(
                f"{name}.weight returned {type(weight).__name__}; expected a tensor of shape "
                f"{(size, size)}, or `sums` of its own that need none"
            )
        if weight.shape != (size, size):
            raise ValueError(
                f"{name}.weight has shape {tuple(weight.shape)}; expected {(size, size)} for "
                f"rows of {tuple(units)} units"
            )
        if not torch.compiler.is_compiling():
            _check_matrix(name, weight.detach(), self)
        return weight.to(dtype)


def check_is_coupling(coupling: Any) -> None:
    """Refuses anything else, with what to pass in place of a name."""
    if not isinstance(coupling, Coupling):
        raise TypeError(
            f"coupling must be an ibnn coupling, such as ibnn.Uniform(-1), got {shown(coupling)}"
            + " (names are for convolutions)" * isinstance(coupling, str)
        )


def _check_matrix(name: str, weight: Tensor, coupling: Coupling) -> None:
    if not bool((weight >= 0).all()):
        raise ValueError(f"{name}.weight must be finite and non-negative (w_ik >= 0)")
    # symmetric up to the rounding of whatever computed it
    if not torch.allclose(weight, weight.T, rtol=1e-5, atol=0.0):
        raise ValueError(f"{name}.weight must be symmetric (w_ik = w_ki)")
    largest = float(weight.sum(1).max())
    normalized = type(coupling).largest_eigenvalue is Coupling.largest_eigenvalue
    if normalized and largest > 1 + 1e-4:
        raise ValueError(
            f"{name}.weight has a row that sums to {largest:.4g}; expected at most 1, or a method "
            "largest_eigenvalue of its own"
        )
