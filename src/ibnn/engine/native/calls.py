"""The C functions of the compiled engine as Python ones.

z + c B(z) = y, B_i = sum_k w_ik s(z_k - z_i), c = lam * slope; w_ik = 1/D where no weights are
given. Rows are scaled (slope 1), but for those of `solve_rows` and `explicit_step`.
"""

import ctypes
import functools
from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ibnn import sigma as sigmas
from ibnn.engine.base import Case
from ibnn.engine.native import loader

SIGMAS = {"tanh": 0, "hardtanh": 1, "arctan": 2, "erf": 3, "peaked": 4}
STRETCH = 4  # kStretch of basics/sigma.h
_SUFFIX = {torch.float32: "f32", torch.float64: "f64"}
DTYPES = frozenset(_SUFFIX)
# the arguments of the C functions: pointers, longs, ints and doubles
_TYPES = {"p": ctypes.c_void_p, "l": ctypes.c_long, "i": ctypes.c_int, "d": ctypes.c_double}
_SIGNATURES = {
    "pair_sum": "pp ll ii p i",
    "bias_change": "pp ll i p i",
    "explicit_step": "p ll ddi pp i",
    "explicit_gradient": "pp ll di pp i",
    "window_sum": "pp ll ppp ii p i",
    "matrix_sum": "pp ll p ii p i",
    "find_roots": "pppp ll l di ppppp i",
    "find_weighted_roots": "pppp ll l ppp di pppp i",
    "solve_jacobian": "ppp ll l i ppp i",
    "solve_weighted_jacobian": "ppp ll l ppp i ppp i",
    "convolve": "pppp pp i",
    "convolution_gradients": "pppp ppp i",
}


class Weights(NamedTuple):
    """A matrix of weights; or, with the shape `units` of a row, the taps of a window: w_ik is the
    tap of the offset k - i."""

    weight: Tensor
    units: Sequence[int] | None = None

    def arguments(self, dtype: torch.dtype) -> tuple[object, ...]:
        weight = self.weight.detach().to(dtype).contiguous()
        if self.units is None:
            return weight, None, None
        return weight, _three_dims(self.units), _three_dims(weight.shape)


def weights_of(case: Case, weight: Tensor | None) -> Weights | None:
    if weight is None and case.sigma in sigmas.BUILT_IN:
        return None
    if weight is None:  # no sums but those over weighted pairs
        units = prod(case.units)
        return Weights(torch.full((units, units), 1 / units, dtype=case.dtype))
    return Weights(weight, case.units if case.sums.name == "window" else None)


def _three_dims(shape: Sequence[int]) -> "ctypes.Array[ctypes.c_long]":
    return (ctypes.c_long * 3)(*[1] * (3 - len(shape)), *shape)


def pair_sum(z: Tensor, a: Tensor | None, order: int, sigma: str) -> Tensor:
    """P_n(z, a)_i = (1/D) sum_k a_k s_n(z_k - z_i) for rows of z; a = None means ones. `STRETCH` in
    place of an order stands for x s'(x)."""
    out = torch.empty_like(z, memory_format=torch.contiguous_format)
    _call("pair_sum", z, _contiguous(z, a), (order, SIGMAS[sigma]), (out,))
    return out


def bias_change(z: Tensor, v: Tensor, sigma: str) -> Tensor:
    """(1/D) sum_k s'(z_k - z_i) (v_k - v_i) for rows of z."""
    out = torch.empty_like(z, memory_format=torch.contiguous_format)
    _call("bias_change", z, _contiguous(z, v), (SIGMAS[sigma],), (out,))
    return out


def explicit_step(
    y: Tensor, lam: float, slope: float, sigma: str, kept: bool
) -> tuple[Tensor, Tensor | None]:
    """y - lam B(y), rows of y before the slope; and slope * y, if that is to be kept."""
    y = y.detach().contiguous()
    z = torch.empty_like(y)
    scaled = torch.empty_like(y) if kept else None
    _call("explicit_step", y, (y,), (lam, slope, SIGMAS[sigma]), (z, scaled))
    return z, scaled


def explicit_gradient(z: Tensor, g: Tensor, strength: float, sigma: str) -> tuple[Tensor, Tensor]:
    """g - strength DB(z) g, and g . B(z) of each row."""
    z, g = z.detach().contiguous(), g.detach().contiguous()
    v = torch.empty_like(z)
    dots = torch.empty(len(z), dtype=torch.float64, device=z.device)
    _call("explicit_gradient", z, (z, g), (strength, SIGMAS[sigma]), (v, dots))
    return v, dots.to(z.dtype)


def window_sum(
    z: Tensor, a: Tensor | None, taps: Tensor, order: int, sigma: str, units: Sequence[int]
) -> Tensor:
    """sum_k w_ik a_k s_n(z_k - z_i) over the neighborhood of each unit; rows of z are maps of
    shape `units`, and w_ik is the tap of the offset k - i."""
    out = torch.empty_like(z, memory_format=torch.contiguous_format)
    numbers = *Weights(taps, units).arguments(z.dtype), order, SIGMAS[sigma]
    _call("window_sum", z, _contiguous(z, a), numbers, (out,))
    return out


def matrix_sum(z: Tensor, a: Tensor | None, weight: Tensor, order: int, sigma: str) -> Tensor:
    """sum_k w_ik a_k s_n(z_k - z_i), w a matrix."""
    out = torch.empty_like(z, memory_format=torch.contiguous_format)
    numbers = Weights(weight).arguments(z.dtype)[0], order, SIGMAS[sigma]
    _call("matrix_sum", z, _contiguous(z, a), numbers, (out,))
    return out


def solve_rows(
    y: Tensor,
    strength: Tensor,
    slope: Tensor,
    atol: Tensor,
    resolution: float,
    sigma: str,
    weights: Weights | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Solve z + c B(z) = y for each row, where z and y stand for slope * z and slope * y.

    `strength` (c), `slope` and `atol` (wanted accuracy of slope * z) have one entry per row.
    Returns z and, of slope * z, the residual max_i |z_i + c B_i - y_i| (infinite for a row that is
    not finite); the Newton steps; and which rows are solved: to atol, or to the fraction
    `resolution` of their range if that is less (and not 0).
    """
    y, coupled = _coupled(y, weights)
    rows = len(y)
    values = _per_row(y, strength, atol, slope)
    z = torch.empty_like(y)
    residual = torch.empty(rows, dtype=torch.float64, device=y.device)
    steps = torch.empty(rows, dtype=torch.int32, device=y.device)
    solved = torch.empty(rows, dtype=torch.bool, device=y.device)
    unasked = (None,) if weights is None else ()  # whether solutions above the threshold are unique
    _call(
        "find_roots" if weights is None else "find_weighted_roots",
        y,
        (y, *values),
        (1, *coupled, resolution, SIGMAS[sigma]),
        (z, residual, steps, solved, *unasked),
    )
    return z, residual, steps, solved


def solve_jacobian(
    z: Tensor,
    g: Tensor,
    strength: Tensor,
    sigma: str,
    weights: Weights | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Solve J v = g for each row, J v = v + c (P_1(z, v) - v P_1(z, 1)).

    Returns v, an estimate of its relative error per row (from the true residual J v - g), and
    v . B(z) per row.
    """
    z, coupled = _coupled(z, weights)
    g = g.detach().contiguous()
    values = _per_row(z, strength)
    v = torch.empty_like(z)
    rows = len(z)
    error = torch.empty(rows, dtype=torch.float64, device=z.device)
    dots = torch.empty(rows, dtype=torch.float64, device=z.device)
    _call(
        "solve_jacobian" if weights is None else "solve_weighted_jacobian",
        z,
        (z, g, *values),
        (1, *coupled, SIGMAS[sigma]),
        (v, error, dots),
    )
    return v, error, dots.to(z.dtype)


def _contiguous(*rows: Tensor | None) -> tuple[Tensor | None, ...]:
    return tuple(None if t is None else t.detach().contiguous() for t in rows)


def _per_row(y: Tensor, *values: Tensor) -> list[Tensor]:
    return [v.expand(len(y)).double().contiguous() for v in values]


def _coupled(y: Tensor, weights: Weights | None) -> tuple[Tensor, tuple[object, ...]]:
    """y, and the arguments that say how its rows are weighted."""
    y = y.detach().contiguous()
    return y, () if weights is None else weights.arguments(y.dtype)


def _call(name: str, y: Tensor, inputs: tuple, numbers: tuple, outputs: tuple) -> None:
    """Call a C function laid out as inputs, rows, units, numbers, outputs, threads."""
    rows, units = y.shape
    for t in (*inputs, *outputs):
        if isinstance(t, Tensor) and (not t.is_cpu or t.numel() not in (rows, rows * units)):
            raise ValueError(
                f"{name}: expected {rows} rows on the CPU, got {tuple(t.shape)} on {t.device}"
            )
    if not rows * units:
        for t in outputs:
            if t is not None:
                t.zero_()
        return
    arguments = *inputs, rows, units, *numbers, *outputs
    run(name, y.dtype, *[a.data_ptr() if isinstance(a, Tensor) else a for a in arguments])


def run(name: str, dtype: torch.dtype, *arguments: Any) -> None:
    """Call a C function; `arguments` are all but the number of threads, tensors as addresses."""
    code = _function(name, dtype)(*arguments, torch.get_num_threads())
    if code:
        raise RuntimeError(f"ibnn_{name} failed with code {code}: please report this as a bug")


@functools.cache
def _function(name: str, dtype: torch.dtype) -> Any:
    compiled = loader.library()
    if compiled is None:
        raise loader.BuildError(
            "the compiled engine is not available: see the log, or ask available() first"
        )
    function = getattr(compiled, f"ibnn_{name}_{_SUFFIX[dtype]}")
    function.argtypes = [_TYPES[letter] for letter in _SIGNATURES[name].replace(" ", "")]
    return function
