"""Rows of up to 64 units: every pair summed, several rows to a program. Any sigma, any range."""

import triton
import triton.language as tl

from ibnn.engine.triton.linear import adjoint_of_units
from ibnn.engine.triton.newton import newton
from ibnn.engine.triton.rows import LARGEST, NOT_FINITE, OPEN, SOLVED, accuracy_of, numbered


@triton.jit(do_not_specialize=["rows", "D"])
def solve_short_rows(
    y_ptr, z_ptr, strength_ptr, slope_ptr, atol_ptr, residual_ptr, steps_ptr, state_ptr,
    rows, D, resolution, SIGMA: tl.constexpr, R: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    row, there = numbered(rows, R)
    i = tl.arange(0, N)[None, :]
    live = there & (i < D)
    p = tl.load(slope_ptr + row, mask=there, other=1.0)
    c = tl.load(strength_ptr + row, mask=there, other=0.0)
    atol = tl.load(atol_ptr + row, mask=there, other=1.0)
    y = tl.load(y_ptr + row * D + i, mask=live, other=0.0)
    broken = live & ((tl.abs(y) <= LARGEST) == 0)
    finite = (tl.max(broken.to(tl.int32), 1, keep_dims=True) == 0) & (tl.abs(c) <= LARGEST)
    finite = finite & (p > 0) & (p <= LARGEST)
    p = tl.where(finite, p, 1.0)
    y = tl.where(finite, y, 0.0)
    c = tl.where(finite, c, 0.0)
    low = tl.min(tl.where(live, y, float("inf")), 1, keep_dims=True)
    high = tl.max(tl.where(live, y, float("-inf")), 1, keep_dims=True)
    half = tl.where(there, (high - low) * 0.5 * p, 0.0)
    # the equation does not see a shift: digits are kept by taking the median for 0
    fits = half <= LARGEST
    target = tl.where(live & fits, (y - _median(y, live, D)) * p, 0.0)
    going = (c != 0) & (c < 1.0) & (half > 0) & fits
    q = tl.where(live, 1.0 / D, 0.0)
    u, residual, steps, solved = newton(
        target, tl.abs(y * p), q, live, c, accuracy_of(half, atol, resolution), atol, going, None,
        SIGMA, False, False,
    )  # fmt: skip
    # nothing to solve
    still = (c == 0) | (half == 0)
    # B is at most 1: no residual of z = y is larger
    residual = tl.where(still, 0.0, tl.where(fits, residual, tl.abs(c)))
    state = tl.where(finite, tl.where(solved | still, SOLVED, OPEN), NOT_FINITE)
    z = tl.where(still, y, y + u / p)
    tl.store(z_ptr + row * D + i, tl.where(finite, z, float("nan")), mask=live)
    tl.store(residual_ptr + row, tl.where(finite, residual, float("inf")), mask=there)
    tl.store(steps_ptr + row, steps, mask=there)
    tl.store(state_ptr + row, state.to(tl.int8), mask=there)


@triton.jit(do_not_specialize=["rows", "D"])
def adjoint_short_rows(
    z_ptr, g_ptr, v_ptr, strength_ptr, error_ptr, dot_ptr,
    rows, D, SIGMA: tl.constexpr, R: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    row, there = numbered(rows, R)
    i = tl.arange(0, N)[None, :]
    live = there & (i < D)
    c = tl.load(strength_ptr + row, mask=there, other=0.0)
    z = tl.load(z_ptr + row * D + i, mask=live, other=0.0)
    g = tl.load(g_ptr + row * D + i, mask=live, other=0.0)
    broken = live & (((tl.abs(z) <= LARGEST) & (tl.abs(g) <= LARGEST)) == 0)
    finite = (tl.max(broken.to(tl.int32), 1, keep_dims=True) == 0) & (tl.abs(c) <= LARGEST)
    z = tl.where(finite, z, 0.0)
    g = tl.where(finite, g, 0.0)
    c = tl.where(finite, c, 0.0)
    size = tl.maximum(tl.max(tl.abs(g), 1, keep_dims=True), 1e-37)
    v, error, dot = adjoint_of_units(z, g, size, live, c, D, None, SIGMA, False)
    tl.store(v_ptr + row * D + i, tl.where(finite, v, float("nan")), mask=live)
    tl.store(error_ptr + row, tl.where(finite, error, float("inf")), mask=there)
    tl.store(dot_ptr + row, tl.where(finite, dot, float("nan")), mask=there)


@triton.jit
def _median(y, live, D):
    """The unit with half of the others below it; of equal ones the first is below."""
    i = tl.arange(0, y.shape[1])
    earlier = (i[:, None] < i[None, :])[None, :, :]
    one, other = y[:, :, None], y[:, None, :]
    below = live[:, :, None] & ((one < other) | ((one == other) & earlier))
    rank = tl.sum(below.to(tl.int32), 1)
    return tl.sum(tl.where(live & (rank == D // 2), y, 0.0), 1, keep_dims=True)
