"""Window coupling: each unit is coupled to its spatial neighborhood."""

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn

from ibnn._checks import check_flag, check_positive, shown
from ibnn.coupling.coupling import Coupling
from ibnn.coupling.window_eigenvalue import product_over_axes, window_eigenvalue
from ibnn.coupling.window_sums import WINDOW


class Window(Coupling):
    """w_ik = a fixed profile of the offset k - i, over the last one to three dims.

    At the borders the weight of missing neighbors is added to w_ii, which has no effect: w is
    symmetric everywhere.

    Examples:
        >>> Window((3, 3)).weight()[1]
        tensor([0.1111, 0.1111, 0.1111])

    Args:
        kernel_size: odd in each dim; a single number means one dim, or all spatial dims of the
            convolution it is given to.
        profile: "box" or "gaussian".
        std: standard deviation of a gaussian, in units (default: kernel_size / 4).
        learnable: whether `std` is a parameter.
    """

    sums = WINDOW
    std: Tensor

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        profile: str = "box",
        std: float | None = None,
        learnable: bool = False,
    ) -> None:
        super().__init__()
        check_flag("learnable", learnable)
        self.single = not isinstance(kernel_size, Iterable)
        given = kernel_size if isinstance(kernel_size, Iterable) else (kernel_size,)
        size = tuple(int(k) if isinstance(k, Integral) else 0 for k in given)
        if not 1 <= len(size) <= 3 or any(k < 1 or k % 2 == 0 for k in size):
            raise ValueError(
                f"kernel_size must be one to three odd ints (w_ik = w_ki), got {shown(kernel_size)}"
            )
        if profile not in ("box", "gaussian"):
            raise ValueError(f"profile={profile!r} is not known; expected 'box' or 'gaussian'")
        if profile == "box" and (std is not None or learnable):
            raise ValueError("a box has no std: use profile='gaussian' to set or learn one")
        if isinstance(std, Tensor) and std.numel() == 1:
            std = std.item()
        if std is not None:
            check_positive("std", std)
        self.kernel_size = size
        self.profile = profile
        self.dims = tuple(range(-len(size), 0))
        self.learnable = learnable
        self._given_std = max(size) / 4 if std is None else float(std)
        value = torch.tensor(self._given_std, device="cpu")
        # a layer needs it when it leaves the meta device
        self._first_values = {"std": value}
        here = value.to(torch.get_default_device())
        if learnable:
            self.std = nn.Parameter(here)
        else:
            self.register_buffer("std", here, persistent=False)
        # a fixed one as a number, which torch.export needs
        exact = torch.tensor(self._given_std, dtype=torch.float64, device="cpu")
        self._eigenvalue = None if learnable else float(self._eigenvalue_at(exact))

    def weight(
        self, dtype: torch.dtype | None = None, units: Sequence[int] | None = None
    ) -> Tensor:
        std = self.std if dtype is None else self.std.to(dtype)
        if not self.learnable:  # as exact as it was given, whatever the layer's dtype has been
            std = torch.full_like(std, self._given_std)
        return product_over_axes([self._taps(size, std) for size in self.kernel_size])

    def largest_eigenvalue(self) -> "float | Tensor":
        """1 - min of the transform of w: taking neighbors away at a border only lowers it."""
        return self._eigenvalue_at(self.std) if self._eigenvalue is None else self._eigenvalue

    def for_layer(self, spatial_dims: int) -> "Window":
        if self.single and spatial_dims > 1:
            std = self._std_number() if self.profile == "gaussian" else None
            return Window(self.kernel_size * spatial_dims, self.profile, std, self.learnable)
        if len(self.kernel_size) != spatial_dims:
            raise ValueError(
                f"Window has {len(self.kernel_size)} dims, but the layer has {spatial_dims}"
            )
        return self

    def config(self) -> dict[str, Any]:
        chosen: dict[str, Any] = {"kind": "Window", "kernel_size": list(self.kernel_size)}
        chosen["profile"] = self.profile
        if self.learnable:
            return {**chosen, "learnable": True}
        return chosen if self.profile == "box" else {**chosen, "std": self._std_number()}

    def extra_repr(self) -> str:
        size = self.kernel_size[0] if self.single else self.kernel_size
        shape = "" if self.profile == "box" else f", std={self._std_number():.3g}"
        return f"{size}, {self.profile}{shape}" + (", learnable=True" if self.learnable else "")

    def _std_number(self) -> float:
        given = self.std.is_meta or not self.learnable
        return self._given_std if given else float(self.std.detach())

    def _taps(self, size: int, std: Tensor) -> Tensor:
        if self.profile == "box":
            return torch.full((size,), 1 / size, dtype=std.dtype, device=std.device)
        offsets = torch.arange(size, dtype=std.dtype, device=std.device) - size // 2
        return torch.softmax(-((offsets / std) ** 2) / 2, 0)

    def _eigenvalue_at(self, std: Tensor) -> Tensor:
        # there is no transform of half precision on a CPU
        exact = std if std.dtype == torch.float64 else std.float()
        return window_eigenvalue([self._taps(size, exact) for size in self.kernel_size]).to(std)
