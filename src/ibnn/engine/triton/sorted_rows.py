"""Wide rows of up to 4096 units, tanh: sorted, every sum a set of running sums. Any range.

The units are the points: nothing is approximated but tanh, by exponentials, and the residual that
Newton ends with is that of every unit.
"""

import triton
import triton.language as tl

from ibnn.engine.triton.linear import adjoint_of_units
from ibnn.engine.triton.newton import newton
from ibnn.engine.triton.nonlinearity import TANH
from ibnn.engine.triton.rows import LARGEST, NOT_FINITE, OPEN, SOLVED, accuracy_of, ends, numbered


@triton.jit(do_not_specialize=["rows", "D"])
def solve_sorted_rows(
    y_ptr, z_ptr, strength_ptr, slope_ptr, atol_ptr, residual_ptr, steps_ptr, state_ptr,
    exponentials, rows, D, resolution, R: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    row, there = numbered(rows, R)
    there = there & (tl.load(state_ptr + row, mask=there, other=SOLVED) == OPEN)
    if tl.max(there.to(tl.int32)) == 0:
        return
    y_ptr += row * D
    z_ptr += row * D
    p = tl.load(slope_ptr + row, mask=there, other=1.0)
    c = tl.load(strength_ptr + row, mask=there, other=0.0)
    atol = tl.load(atol_ptr + row, mask=there, other=1.0)
    low, high, finite = ends(y_ptr, there, D, N)
    finite = finite & (tl.abs(c) <= LARGEST) & (p > 0) & (p <= LARGEST)
    c = tl.where(there & finite, c, 0.0)
    half = tl.where(there & finite, (high - low) * 0.5 * p, 0.0)
    i = tl.arange(0, N)[None, :]
    live = there & finite & (i < D)
    y, unit = sort_units(tl.load(y_ptr + i, mask=live, other=0.0), live)
    # the equation does not see a shift: digits are kept by taking the median for 0
    median = tl.sum(tl.where(i == D // 2, y, 0.0), 1, keep_dims=True)
    fits = half <= LARGEST
    target = tl.where(live & fits, (y - median) * p, 0.0)
    going = there & (c != 0) & (c < 1.0) & (half > 0) & fits
    q = tl.where(live, 1.0 / D, 0.0)
    accuracy = accuracy_of(half, atol, resolution)
    u, residual, steps, solved = newton(
        target, tl.abs(y * p), q, live, c, accuracy, atol, going,
        (exponentials, z_ptr, D), TANH, True, False,
    )  # fmt: skip
    # nothing to solve
    still = (c == 0) | (half == 0)
    # B is at most 1: no residual of z = y is larger
    residual = tl.where(still, 0.0, tl.where(fits, residual, tl.abs(c)))
    z = tl.where(still, y, y + u / p)
    # every point has been read
    tl.debug_barrier()
    here = tl.where(finite, unit, i)
    tl.store(z_ptr + here, tl.where(finite, z, float("nan")), mask=there & (i < D))
    state = tl.where(finite, tl.where(solved | still, SOLVED, OPEN), NOT_FINITE)
    tl.store(residual_ptr + row, tl.where(finite, residual, float("inf")), mask=there)
    tl.store(steps_ptr + row, steps, mask=there)
    tl.store(state_ptr + row, state.to(tl.int8), mask=there)


@triton.jit(do_not_specialize=["rows", "D"])
def adjoint_sorted_rows(
    z_ptr, g_ptr, v_ptr, strength_ptr, error_ptr, dot_ptr, state_ptr,
    exponentials, rows, D, R: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    row, there = numbered(rows, R)
    there = there & (tl.load(state_ptr + row, mask=there, other=SOLVED) == OPEN)
    if tl.max(there.to(tl.int32)) == 0:
        return
    z_ptr += row * D
    g_ptr += row * D
    v_ptr += row * D
    c = tl.load(strength_ptr + row, mask=there, other=0.0)
    _, _, finite = ends(z_ptr, there, D, N)
    least, largest, g_finite = ends(g_ptr, there, D, N)
    finite = finite & g_finite & (tl.abs(c) <= LARGEST)
    c = tl.where(there & finite, c, 0.0)
    i = tl.arange(0, N)[None, :]
    live = there & finite & (i < D)
    z, unit = sort_units(tl.load(z_ptr + i, mask=live, other=0.0), live)
    g = tl.load(g_ptr + unit, mask=live, other=0.0)
    size = tl.maximum(tl.maximum(tl.abs(least), tl.abs(largest)), 1e-37)
    v, error, dot = adjoint_of_units(
        z, g, size, live, c, D, (exponentials, v_ptr, D), TANH, True
    )  # fmt: skip
    # every point has been read
    tl.debug_barrier()
    here = tl.where(finite, unit, i)
    tl.store(v_ptr + here, tl.where(finite, v, float("nan")), mask=there & (i < D))
    tl.store(error_ptr + row, tl.where(finite, error, float("inf")), mask=there)
    tl.store(dot_ptr + row, tl.where(finite, dot, float("nan")), mask=there)


@triton.jit
def sort_units(x, live):
    """x in ascending order with the number of each unit; units that are not live at the end."""
    bits = x.to(tl.int32, bitcast=True)
    # as integers, floats are in order once the negative ones are turned around
    key = tl.where(live, bits ^ ((bits >> 31) & 0x7FFFFFFF), 0x7FFFFFFF)
    unit = tl.broadcast_to(tl.arange(0, x.shape[1])[None, :], x.shape)
    packed = tl.sort((key.to(tl.int64) << 32) | unit.to(tl.int64), 1)
    key = (packed >> 32).to(tl.int32)
    x = (key ^ ((key >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)
    return tl.where(live, x, 0.0), (packed & 0xFFFFFFFF).to(tl.int32)
