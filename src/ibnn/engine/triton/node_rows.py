"""Narrow rows of any length on S Chebyshev nodes: S equations instead of D, every unit checked.

y becomes nodes, Newton finds z there, and z(y) comes back to the units as a series, right to
rounding unless z(y) is nearly singular. Then, on the nodes of z itself, the residual of every unit
is measured, and all units take Newton steps while it is too large. Units are read block by block,
anew in every pass: a row may have any length, and what was read once is near.
"""

import triton
import triton.language as tl

from ibnn.engine.triton.chebyshev import node_weights, nodes_of, reach, series, store_series
from ibnn.engine.triton.linear import precision, rise, smoothed_solution
from ibnn.engine.triton.newton import least_slope, newton, noise_of_sums, trustworthy
from ibnn.engine.triton.nonlinearity import TANH
from ibnn.engine.triton.rows import (
    EPS,
    LARGEST,
    NOT_FINITE,
    OPEN,
    SOLVED,
    accuracy_of,
    ends,
    numbered,
)
from ibnn.engine.triton.sums import fields

# Newton steps of all units after the guess
CORRECTIONS = tl.constexpr(4)


@triton.jit(do_not_specialize=["rows", "D"])
def solve_on_nodes(
    y_ptr, z_ptr, strength_ptr, slope_ptr, atol_ptr, residual_ptr, steps_ptr, state_ptr,
    table, exponentials, work, rows, D, resolution,
    S: tl.constexpr, SORTED: tl.constexpr, R: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row, there = numbered(rows, R)
    there = there & (tl.load(state_ptr + row, mask=there, other=SOLVED) == OPEN)
    if tl.max(there.to(tl.int32)) == 0:
        return
    y_ptr += row * D
    z_ptr += row * D
    work += row * (2 * S)
    p = tl.load(slope_ptr + row, mask=there, other=1.0)
    c = tl.load(strength_ptr + row, mask=there, other=0.0)
    atol = tl.load(atol_ptr + row, mask=there, other=1.0)
    low, high, finite = ends(y_ptr, there, D, BLOCK)
    finite = finite & (tl.abs(c) <= LARGEST) & (p > 0) & (p <= LARGEST)
    # the equation does not see a shift: digits are kept by taking the middle for 0
    middle = low + (high - low) * 0.5
    half = (high - low) * 0.5 * p
    still = (c == 0) | (half == 0)
    accuracy = accuracy_of(half, atol, resolution)
    # c > 0 pushes the ends of z out, by c at most
    error = tl.minimum(tl.maximum(0.3 * accuracy / tl.maximum(tl.abs(c), 1e-30), 1e-7), 1e-5)
    fits = (c < 1.0) & (half + tl.maximum(c, 0.0) <= reach(error, S))
    going = there & finite & fits & (still == 0)
    # B is at most 1: no residual of z = y is larger
    residual = tl.where(still, 0.0, tl.abs(c))
    solved = still
    steps = tl.zeros(c.shape, tl.int32)
    if tl.max(going.to(tl.int32)) > 0:
        # the other rows rest meanwhile
        active = tl.where(going, c, 0.0)
        within = tl.where(going, half, 1.0)
        steps = _guess(
            y_ptr, z_ptr, going, middle, within, p, active, accuracy, atol,
            table, exponentials, work, D, S, SORTED, BLOCK,
        )  # fmt: skip
        found, corrections, good = _correct(
            y_ptr, z_ptr, going, middle, within, p, active, accuracy, atol,
            table, exponentials, work, D, S, SORTED, BLOCK,
        )  # fmt: skip
        going = going & (found <= LARGEST)
        residual = tl.where(going, found, residual)
        solved = solved | (going & good)
        steps += corrections
    i = tl.arange(0, BLOCK)[None, :]
    for start in range(0, D, BLOCK):
        live = there & (start + i < D)
        y = tl.load(y_ptr + start + i, mask=live, other=0.0)
        u = tl.load(z_ptr + start + i, mask=live & going, other=0.0)
        z = tl.where(going, y + u / p, y)
        tl.store(z_ptr + start + i, tl.where(finite, z, float("nan")), mask=live)
    state = tl.where(finite, tl.where(solved, SOLVED, OPEN), NOT_FINITE)
    tl.store(residual_ptr + row, tl.where(finite, residual, float("inf")), mask=there)
    tl.store(steps_ptr + row, steps, mask=there)
    tl.store(state_ptr + row, state.to(tl.int8), mask=there)


@triton.jit
def _guess(
    y_ptr, u_ptr, going, middle, half, p, c, accuracy, atol,
    table, exponentials, work, D,
    S: tl.constexpr, SORTED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Writes z - y of every unit, z as a function of y found on nodes; returns the steps."""
    share = 1.0 / D
    scale = p / half
    i = tl.arange(0, BLOCK)[None, :]
    q = tl.zeros([going.shape[0], S], tl.float32)
    for start in range(0, D, BLOCK):
        live = going & (start + i < D)
        y = tl.load(y_ptr + start + i, mask=live, other=0.0)
        x = tl.where(live, (y - middle) * scale, 0.0)
        q += node_weights(x, tl.where(live, share, 0.0), table, S)
    target = half * nodes_of(table, S)
    every = going & (target == target)
    u, _, steps, _ = newton(
        target, tl.abs(target), q, every, c, 0.5 * accuracy, atol, going,
        (exponentials, work, S), TANH, SORTED, True,
    )  # fmt: skip
    store_series(work, u, going, table, S)
    for start in range(0, D, BLOCK):
        live = going & (start + i < D)
        y = tl.load(y_ptr + start + i, mask=live, other=0.0)
        x = tl.where(live, (y - middle) * scale, 0.0)
        tl.store(u_ptr + start + i, series(x, work, going, table, S), mask=live)
    tl.debug_barrier()
    return steps


@triton.jit
def _correct(
    y_ptr, u_ptr, going, middle, widest, p, c, accuracy, atol,
    table, exponentials, work, D,
    S: tl.constexpr, SORTED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The largest residual of all units, the steps taken, and which rows are solved."""
    share = 1.0 / D
    i = tl.arange(0, BLOCK)[None, :]
    worst = tl.full(c.shape, float("inf"), tl.float32)
    steps = tl.zeros(c.shape, tl.int32)
    solved = going & (c != c)
    rounding = 2.0 * EPS * widest
    n = 0
    while (n <= CORRECTIONS) & (tl.max(going.to(tl.int32)) > 0):
        low = tl.full(c.shape, float("inf"), tl.float32)
        high = tl.full(c.shape, float("-inf"), tl.float32)
        for start in range(0, D, BLOCK):
            live = going & (start + i < D)
            z = _scaled(y_ptr, middle, p, start + i, live)
            z += tl.load(u_ptr + start + i, mask=live, other=0.0)
            low = tl.minimum(low, tl.min(tl.where(live, z, float("inf")), 1, keep_dims=True))
            high = tl.maximum(high, tl.max(tl.where(live, z, float("-inf")), 1, keep_dims=True))
        center = tl.where(going, low + (high - low) * 0.5, 0.0)
        half = tl.where(going, tl.maximum((high - low) * 0.5, 1e-30), 1.0)
        scale = 1.0 / half
        q = tl.zeros([going.shape[0], S], tl.float32)
        for start in range(0, D, BLOCK):
            live = going & (start + i < D)
            z = _scaled(y_ptr, middle, p, start + i, live)
            z += tl.load(u_ptr + start + i, mask=live, other=0.0)
            x = tl.where(live, (z - center) * scale, 0.0)
            q += node_weights(x, tl.where(live, share, 0.0), table, S)
        nodes = half * nodes_of(table, S)
        potential, density, kernel = fields(
            nodes, q, going & (nodes == nodes), (exponentials, work, S), TANH, SORTED, True
        )  # fmt: skip
        store_series(work, potential, going, table, S)
        now = tl.zeros_like(c)
        for start in range(0, D, BLOCK):
            live = going & (start + i < D)
            u = tl.load(u_ptr + start + i, mask=live, other=0.0)
            z = _scaled(y_ptr, middle, p, start + i, live) + u
            x = tl.where(live, (z - center) * scale, 0.0)
            r = u + c * series(x, work, going, table, S)
            now = tl.maximum(now, tl.max(tl.where(live, tl.abs(r), 0.0), 1, keep_dims=True))
        densest = tl.max(density, 1, keep_dims=True)
        least = least_slope(densest, c)
        noise = rounding + noise_of_sums(widest, densest, c, accuracy, SORTED)
        excess = tl.maximum(now - noise, 0.0)
        trusted = going & trustworthy(now, widest, least, c, atol)
        solved = solved | (trusted & (excess <= 2.0 * accuracy * least))
        # again where it is too large, and the last step has helped
        again = going & (excess > 0.4 * accuracy * least) & (now < 0.5 * worst)
        worst = tl.where(going, now, worst)
        going = again
        if (n < CORRECTIONS) & (tl.max(going.to(tl.int32)) > 0):
            store_series(work + S, density, going, table, S)
            mix = tl.zeros_like(q)
            right = tl.zeros_like(q)
            for start in range(0, D, BLOCK):
                live = going & (start + i < D)
                u = tl.load(u_ptr + start + i, mask=live, other=0.0)
                z = _scaled(y_ptr, middle, p, start + i, live) + u
                x = tl.where(live, (z - center) * scale, 0.0)
                m = tl.where(live, rise(series(x, work + S, going, table, S), c) * share, 0.0)
                r = (u + c * series(x, work, going, table, S)) * (1.0 / worst)
                mix += node_weights(x, m, table, S)
                right -= node_weights(x, m * r, table, S)
            kw, _ = smoothed_solution(
                right, c * mix, kernel, c, 1e-3, (exponentials, work, S), SORTED
            )  # fmt: skip
            # r + c K w in one series
            store_series(work, potential + worst * kw, going, table, S)
            away = tl.zeros_like(c)
            for start in range(0, D, BLOCK):
                live = going & (start + i < D)
                u = tl.load(u_ptr + start + i, mask=live, other=0.0)
                z = _scaled(y_ptr, middle, p, start + i, live) + u
                x = tl.where(live, (z - center) * scale, 0.0)
                pull = u + c * series(x, work, going, table, S)
                step = tl.where(live, rise(series(x, work + S, going, table, S), c) * pull, 0.0)
                away = tl.maximum(away, tl.max(tl.abs(step), 1, keep_dims=True))
                tl.store(u_ptr + start + i, u - step, mask=live)
            tl.debug_barrier()
            # a short step tells as much as a small residual (see `newton`)
            near = (away - rounding <= 0.4 * accuracy) & (excess <= 0.1 * least)
            solved = solved | (going & trusted & near)
            steps += going.to(tl.int32)
        n += 1
    return worst, steps, solved


@triton.jit
def _scaled(y_ptr, middle, p, i, live):
    return tl.where(live, (tl.load(y_ptr + i, mask=live, other=0.0) - middle) * p, 0.0)


@triton.jit(do_not_specialize=["rows", "D"])
def adjoint_on_nodes(
    z_ptr, g_ptr, v_ptr, strength_ptr, error_ptr, dot_ptr, state_ptr,
    table, exponentials, work, rows, D,
    S: tl.constexpr, SORTED: tl.constexpr, R: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """v = (g - c u(z)) m(z), m = 1 / (1 - c P_1(z, 1)), u = P_1(z, v): both functions on nodes."""
    row, there = numbered(rows, R)
    there = there & (tl.load(state_ptr + row, mask=there, other=SOLVED) == OPEN)
    if tl.max(there.to(tl.int32)) == 0:
        return
    z_ptr += row * D
    g_ptr += row * D
    v_ptr += row * D
    work += row * (2 * S)
    c = tl.load(strength_ptr + row, mask=there, other=0.0)
    low, high, finite = ends(z_ptr, there, D, BLOCK)
    least, largest, g_finite = ends(g_ptr, there, D, BLOCK)
    finite = finite & g_finite & (tl.abs(c) <= LARGEST)
    center = low + (high - low) * 0.5
    half = tl.maximum((high - low) * 0.5, 1e-30)
    size = tl.maximum(tl.maximum(tl.abs(least), tl.abs(largest)), 1e-37)
    going = there & finite & (c < 1.0) & (half <= reach(3e-7, S))
    i = tl.arange(0, BLOCK)[None, :]
    # of v = g, which rows without a place here are left with: J is 1 up to 2 |c|
    error = 2.0 * tl.abs(c)
    dot = tl.zeros_like(c)
    if tl.max(going.to(tl.int32)) > 0:
        # the other rows rest meanwhile
        active = tl.where(going, c, 0.0)
        within = tl.where(going, half, 1.0)
        found, product = _adjoint(
            z_ptr, g_ptr, v_ptr, going, center, within, size, active,
            table, exponentials, work, D, S, SORTED, BLOCK,
        )  # fmt: skip
        error = tl.where(going, found, error)
        dot = tl.where(going, product, dot)
    for start in range(0, D, BLOCK):
        live = there & (start + i < D) & (going == 0)
        g = tl.load(g_ptr + start + i, mask=live, other=0.0)
        tl.store(v_ptr + start + i, tl.where(finite, g, float("nan")), mask=live)
    state = tl.where(finite, tl.where(going & (error <= 2e-5), SOLVED, OPEN), NOT_FINITE)
    tl.store(error_ptr + row, tl.where(finite, error, float("inf")), mask=there)
    tl.store(dot_ptr + row, tl.where(finite, dot, float("nan")), mask=there)
    tl.store(state_ptr + row, state.to(tl.int8), mask=there)


@triton.jit
def _adjoint(
    z_ptr, g_ptr, v_ptr, going, center, half, size, c,
    table, exponentials, work, D,
    S: tl.constexpr, SORTED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    i = tl.arange(0, BLOCK)[None, :]
    share, scale, unit = 1.0 / D, 1.0 / half, 1.0 / size
    q = tl.zeros([going.shape[0], S], tl.float32)
    # a constant passes through J unchanged, and would only cost digits
    mean = tl.zeros_like(c)
    for start in range(0, D, BLOCK):
        live = going & (start + i < D)
        x = _place(z_ptr, center, scale, start + i, live)
        q += node_weights(x, tl.where(live, share, 0.0), table, S)
        g = tl.load(g_ptr + start + i, mask=live, other=0.0) * unit
        mean += tl.sum(tl.where(live, g, 0.0), 1, keep_dims=True) * share
    nodes = half * nodes_of(table, S)
    potential, density, kernel = fields(
        nodes, q, going & (nodes == nodes), (exponentials, work, S), TANH, SORTED, True
    )  # fmt: skip
    store_series(work, density, going, table, S)
    mix = tl.zeros_like(q)
    right = tl.zeros_like(q)
    for start in range(0, D, BLOCK):
        live = going & (start + i < D)
        x = _place(z_ptr, center, scale, start + i, live)
        g = tl.load(g_ptr + start + i, mask=live, other=0.0) * unit - mean
        m = tl.where(live, rise(series(x, work, going, table, S), c) * share, 0.0)
        mix += node_weights(x, m, table, S)
        right += node_weights(x, m * g, table, S)
    kw, left = smoothed_solution(
        right, c * mix, kernel, c, precision(c), (exponentials, work, S), SORTED
    )  # fmt: skip
    store_series(work + S, kw, going, table, S)
    largest = tl.zeros_like(c)
    for start in range(0, D, BLOCK):
        live = going & (start + i < D)
        x = _place(z_ptr, center, scale, start + i, live)
        g = tl.load(g_ptr + start + i, mask=live, other=0.0)
        pull = g * unit - mean - c * series(x, work + S, going, table, S)
        v = pull * rise(series(x, work, going, table, S), c) + mean
        largest = tl.maximum(largest, tl.max(tl.where(live, tl.abs(v), 0.0), 1, keep_dims=True))
        tl.store(v_ptr + start + i, tl.where(c == 0, g, v * size), mask=live)
    # what is left of g, and what J^-1 may make of it
    densest = tl.max(density, 1, keep_dims=True)
    error = left / (least_slope(densest, c) * tl.maximum(largest, 1e-37))
    weights = right - c * mix * kw + mean * q  # of v on the nodes
    return error, tl.sum(weights * potential, 1, keep_dims=True) * D * size


@triton.jit
def _place(z_ptr, center, scale, i, live):
    return tl.where(live, (tl.load(z_ptr + i, mask=live, other=0.0) - center) * scale, 0.0)
