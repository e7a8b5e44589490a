"""Newton's method on the points of a row: z_s + c sum_r q_r s(z_r - z_s) = y_s, weights q.

The points are the units themselves (q = 1/D) or nodes that stand for them. What is found is the
displacement u = z - y, which keeps its digits however far from 0 a unit is. Rows of a program are
solved side by side and stop one by one.
"""

import triton
import triton.language as tl

from ibnn.engine.triton.linear import rise, solve_nodes, solve_units
from ibnn.engine.triton.rows import EPS
from ibnn.engine.triton.sums import NOISE, fields, in_order

# fields computed before a row is given up: the bank of tests needs 20
EVALUATIONS = tl.constexpr(100)


@triton.jit
def newton(
    target, own, q, live, c, accuracy, atol, going, running,
    SIGMA: tl.constexpr, SORTED: tl.constexpr, NODES: tl.constexpr,
):  # fmt: skip
    """u, the largest residual, the steps, and which rows are solved.

    A row is solved when z is right to `accuracy`: a residual r is an error of at most
    r / (1 - c d), d the largest density. Where J is stiff, rounding of z alone leaves more than
    that, but J takes it back: there the step to the solution tells how far it is. `own` is the size
    of a unit, to which its digits are promised; target is relative to some middle of the row.
    """
    u = tl.where(going, normal_start(target, q, c), 0.0)
    base = u
    best = u
    step = tl.zeros_like(u)
    length = tl.full(c.shape, 1.0, tl.float32)
    # minus the slope of the energy along the step, at its start
    downhill = tl.zeros_like(c)
    rounding = 2.0 * EPS * tl.minimum(tl.abs(target), own)
    reach = tl.max(tl.abs(target), 1, keep_dims=True)
    size = tl.full(c.shape, float("inf"), tl.float32)
    residual = size
    wanted = going
    solved = going & (c != c)
    stalled = tl.zeros(c.shape, tl.int32)
    steps = tl.zeros(c.shape, tl.int32)
    n = 0
    # rows that are not to be solved are evaluated once, for their residual
    while (n == 0) | ((n < EVALUATIONS) & (tl.max(going.to(tl.int32)) > 0)):
        potential, density, kernel = fields(
            target + u, q, live, running, SIGMA, SORTED, NODES
        )  # fmt: skip
        r = tl.where(live, u + c * potential, 0.0)
        densest = tl.max(tl.where(live, density, 0.0), 1, keep_dims=True)
        least = least_slope(densest, c)
        # without what is rounding
        worst = tl.max(tl.abs(r) - rounding, 1, keep_dims=True)
        worst = tl.maximum(worst - noise_of_sums(reach, densest, c, accuracy, SORTED), 0.0)
        smaller = worst < size
        best = tl.where(smaller, u, best)
        top = tl.max(tl.abs(r), 1, keep_dims=True)
        residual = tl.where(smaller, top, residual)
        # a step overshoots where the energy rises again, unless the residual says it is good
        along = tl.sum(q * r * step, 1, keep_dims=True)
        good = worst <= 0.9 * size
        accepted = good | (along <= 0.5 * downhill)
        stalled = tl.where(good, 0, tl.where(accepted, stalled + 1, stalled))
        size = tl.minimum(size, worst)
        # neighbors near each other but far from the middle are where rounding has put them
        blur = EPS * tl.abs(c) * (density - q) * tl.abs(target) - 1e-5 * own
        sharp = tl.max(tl.where(live, blur, 0.0), 1, keep_dims=True) <= 5.0 * atol
        trusted = wanted & sharp & trustworthy(residual, reach, least, c, atol)
        solved = solved | (trusted & (size <= 2.0 * accuracy * least))
        # what is allowed is not what is aimed at
        patience = tl.where(size < 100.0 * accuracy, 3, 12)
        going = going & (size > 0.4 * accuracy * least) & (stalled < patience) & (length > 1e-6)
        fresh = going & accepted
        if tl.max(fresh.to(tl.int32)) > 0:
            # no better than the curvature leaves of a step
            allowed = tl.maximum(0.04 * accuracy * least / tl.maximum(worst, 1e-37), 0.03 * worst)
            allowed = tl.minimum(tl.maximum(allowed, 1e-5), 1e-2)
            top = tl.maximum(top, 1e-37)
            if NODES:
                direction = solve_nodes(
                    -r / top, kernel, q, density, c, allowed, running, SORTED
                )  # fmt: skip
            else:
                direction = solve_units(
                    -r / top, kernel, q, live, density, c, allowed, running, SORTED
                )  # fmt: skip
            step = tl.where(fresh, direction * top, step)
            base = tl.where(fresh, u, base)
            downhill = tl.where(fresh, -tl.sum(q * r * step, 1, keep_dims=True), downhill)
            away = tl.max(tl.abs(step) - rounding, 1, keep_dims=True)
            near = trusted & (away <= 0.4 * accuracy) & (worst <= 0.1 * least)
            solved = solved | (fresh & near)
            going = going & ((fresh & near) == 0)
            steps += fresh.to(tl.int32)
        # where the slope along a step that overshoots would be 0, were it linear
        shorter = length * tl.minimum(tl.maximum(downhill / (downhill + along), 0.1), 0.9)
        length = tl.where(accepted, 1.0, shorter)
        moved = base + length * step
        if SORTED:
            moved = in_order(moved, target, c)
        u = tl.where(going, moved, u)
        n += 1
    return best, residual, steps, solved


@triton.jit
def noise_of_sums(reach, densest, c, accuracy, SORTED: tl.constexpr):
    """What rounding leaves of c G."""
    noise = 2.0 * EPS * largest_move(reach, c)
    if SORTED:
        # of running sums more, which is forgiven as long as it hardly shows in z
        most = 5.0 * accuracy * tl.sqrt(least_slope(densest, c))
        noise += tl.minimum(NOISE * densest * tl.abs(c), most)
    return noise


@triton.jit
def largest_move(reach, c):
    """A bound for |z - y| = |c G|: G is at most 1, and at most the range of z."""
    return tl.abs(c) * tl.minimum(2.0 * reach * rise(1.0, c), 1.0)


@triton.jit
def trustworthy(residual, reach, least, c, atol):
    """Whether J^-1 cannot have made too much of rounding; for c < 0 it only makes it less.

    c, z - y and c G are rounded, and the residual cannot show it: together 2 roundings of z - y.
    What is promised of z is 5 atol, and 5e-5 of its range.
    """
    move = largest_move(reach, c)
    allowed = tl.minimum(5.0 * atol, 5e-5 * (move + reach))
    shown = (residual <= 20.0 * atol * least) & (2.0 * EPS * move <= allowed * least)
    return (c < 0) | shown


@triton.jit
def least_slope(densest, c):
    """A bound from below for the eigenvalues of J, from the largest density."""
    return tl.minimum(tl.maximum(1.0 - c * densest, 5e-4), 1.0)


@triton.jit
def normal_start(y, q, c):
    """z - y of a row whose units were normally distributed with this row's mean and spread.

    For such a row sums of sigma are nearly a tanh themselves, G(t) = -tanh(b t), with b from the
    spread of z, which follows from that of y. It spares one to three steps; any start would lead to
    the same solution.
    """
    mean = tl.sum(q * y, 1, keep_dims=True)
    away = y - mean
    variance = tl.maximum(tl.sum(q * away * away, 1, keep_dims=True), 0.0)
    c = tl.minimum(c, 0.999)
    # std(z) / std(y) = a, with a (1 - c E s'(z - z')) = 1: Newton from the side of no overshoot
    a = 1.0 / (1.0 - c)
    for _ in range(5):
        d = 1.0 / tl.sqrt(1.0 + 3.14159265 * variance * a * a)
        a -= (a * (1.0 - c * d) - 1.0) / (1.0 - c * d * d * d)
    b = 1.0 / tl.sqrt(1.0 + 1.57079633 * variance * a * a)
    x = tl.abs(away)
    near = x / (1.0 - c * b)
    far = x + c
    # both bound the root of t - c tanh(b t) = x from the side of no overshoot
    t = tl.where(c > 0, tl.minimum(near, far), tl.maximum(near, far))
    for _ in range(2):
        e = tl.exp(-2.0 * b * t)
        pull = (1.0 - e) / (1.0 + e)
        t -= (t - c * pull - x) / (1.0 - c * b * (1.0 - pull * pull))
    return tl.where(away < 0, x - t, t - x)
