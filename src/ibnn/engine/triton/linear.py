"""Linear systems J v = g on points of a row, J v = (1 - c d_s) v_s + c sum_r q_r s'(z_r - z_s) v_r.

Conjugate gradients, one product with the kernel K of s' in each step. |g| is about 1, or 0: callers
scale it, so that squares neither overflow nor vanish.
"""

import triton
import triton.language as tl

from ibnn.engine.triton.sums import fields, times

# products before a row is given up: the bank of tests needs 40
PRODUCTS = tl.constexpr(60)


@triton.jit
def rise(density, c):
    """m = 1 / (1 - c d); d may exceed 1 by rounding where c is nearly 1."""
    return 1.0 / tl.maximum(1.0 - c * density, 2e-4)


@triton.jit
def precision(c):
    """What may be left of g in the backward pass; c < 0 makes v smaller than g."""
    return 1e-6 / (1.0 + 0.2 * tl.abs(c))


@triton.jit
def adjoint_of_units(
    z, g, size, live, c, count, running, SIGMA: tl.constexpr, SORTED: tl.constexpr
):
    """v with J(z) v = g, its relative error and v . B(z), where all units are here; |g| <= size.

    The error is what the residual J v - g, measured at every unit, makes of v.
    """
    q = tl.where(live, 1.0 / count, 0.0)
    potential, density, kernel = fields(z, q, live, running, SIGMA, SORTED, False)
    # a constant passes through J unchanged, and would only cost digits
    mean = tl.sum(q * (g / size), 1, keep_dims=True)
    right = tl.where(live, g / size - mean, 0.0)
    v = solve_units(right, kernel, q, live, density, c, precision(c), running, SORTED)
    image = (1.0 - c * density) * v + c * times(kernel, q * v, running, SORTED)
    gap = tl.where(live, (image - right) * rise(density, c), 0.0)
    v = tl.where(live, v + mean, 0.0)
    length = tl.sum(v * v, 1, keep_dims=True)
    error = tl.sqrt(tl.sum(gap * gap, 1, keep_dims=True) / tl.maximum(length, 1e-37))
    dot = tl.sum(v * potential, 1, keep_dims=True) * size
    return tl.where(c == 0, g, v * size), error, dot


@triton.jit
def solve_units(g, kernel, q, live, density, c, allowed, running, SORTED: tl.constexpr):
    """v where the points are the units: J is symmetric, and definite for c < 1.

    The largest |J v - g| is at most `allowed`, unless products ran out.
    """
    m = rise(density - q, c)
    v = tl.zeros_like(g)
    r = tl.where(live, g, 0.0)
    p = m * r
    energy = tl.sum(r * p, 1, keep_dims=True)
    left = tl.max(tl.abs(r), 1, keep_dims=True)
    n = 0
    while (n < PRODUCTS) & (tl.max(((left > allowed) & (energy > 0.0)).to(tl.int32)) > 0):
        jp = (1.0 - c * density) * p + c * times(kernel, q * p, running, SORTED)
        jp = tl.where(live, jp, 0.0)
        curve = tl.sum(p * jp, 1, keep_dims=True)
        open = (left > allowed) & (energy > 0.0) & (curve > 0.0)
        length = tl.where(open, energy / curve, 0.0)
        v += length * p
        r -= length * jp
        after = tl.sum(m * r * r, 1, keep_dims=True)
        p = m * r + tl.where(open, after / energy, 0.0) * p
        left = tl.where(open, tl.max(tl.abs(r), 1, keep_dims=True), left)
        energy = tl.where(open, after, 0.0)
        n += 1
    return v


@triton.jit
def solve_nodes(g, kernel, q, density, c, allowed, running, SORTED: tl.constexpr):
    """v where the points are nodes, some of whose weights may be negative."""
    m = rise(density, c)
    kw, _ = smoothed_solution(
        q * m * g, c * q * m, kernel, c, allowed, running, SORTED
    )  # fmt: skip
    return m * (g - c * kw)


@triton.jit
def smoothed_solution(x, mix, kernel, c, allowed, running, SORTED: tl.constexpr):
    """K w with w + mix K w = x, and the largest |c K r|, r what is left of x.

    With mix = c q m, m = 1 / (1 - c d), and x = q m g, w are the weights of v = m (g - c K w), and
    c K r is J v - g. Symmetric in the inner product of K, whatever the sign of q.
    """
    kw = tl.zeros_like(x)
    r = x
    kr = times(kernel, r, running, SORTED)
    p = r
    kp = kr
    energy = tl.sum(r * kr, 1, keep_dims=True)
    left = tl.abs(c) * tl.max(tl.abs(kr), 1, keep_dims=True)
    n = 0
    while (n < PRODUCTS) & (tl.max(((left > allowed) & (energy > 0.0)).to(tl.int32)) > 0):
        ap = p + mix * kp
        curve = tl.sum(kp * ap, 1, keep_dims=True)
        open = (left > allowed) & (energy > 0.0) & (curve > 0.0)
        length = tl.where(open, energy / curve, 0.0)
        kw += length * kp
        r -= length * ap
        kr = times(kernel, r, running, SORTED)
        after = tl.sum(r * kr, 1, keep_dims=True)
        turn = tl.where(open, after / energy, 0.0)
        p = r + turn * p
        kp = kr + turn * kp
        left = tl.where(open, tl.abs(c) * tl.max(tl.abs(kr), 1, keep_dims=True), left)
        energy = tl.where(open, after, 0.0)
        n += 1
    return kw, left
