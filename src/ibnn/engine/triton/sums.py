"""Sums over the points of a row, sum_r q_r s(z_r - z_s) and its derivative, in two ways.

Few points: all pairs, for any sigma. Sorted points: 1 - tanh written as a sum of exponentials, each
a running sum from the left and one from the right; O(points), for any range, tanh only.
Tensors are (rows, points). Points without weight fill a row up; sorted ones have them at the end.
"""

import triton
import triton.language as tl

from ibnn.engine.triton.nonlinearity import value_and_slope

# For x >= 0, 1 - tanh x = sum_j a_j exp(-b_j x) to 5e-8 and sech^2 x = sum_j d_j exp(-b_j x) to
# 2e-6: a least-squares fit on [0, 12], with a penalty on the size of the weights, which multiply
# the rounding of the sums. a_0 and d_0 are 1 minus the others, so that tanh 0 = 0 and sech 0 = 1.
RATES = (2.0000033, 3.9938080, 6.3013693, 7.4448770, 8.9205282, 10.2578949, 11.0690963)
VALUES = (0.0, -1.9703825, 3.2330502, -3.6573312, 2.1086806, -1.0089982, 0.2949305)
SLOPES = (0.0, -7.8693024, 20.3718633, -27.2257823, 18.8057893, -10.3447971, 3.2621221)
EXPONENTIALS = (*RATES, *VALUES, *SLOPES, len(RATES))
TERMS = tl.constexpr(len(RATES))
# what rounding leaves of such a sum over points of density 1
NOISE = tl.constexpr(2e-6)
# a gap that nothing crosses
FAR = tl.constexpr(1e30)


@triton.jit
def fields(z, q, live, running, SIGMA: tl.constexpr, SORTED: tl.constexpr, NODES: tl.constexpr):
    """sum_r q_r s(z_r - z_s), sum_r q_r s'(z_r - z_s), and s' itself in the form `times` takes.

    `running` is what running sums need: the table of exponentials, memory for the points of each
    row, and their number. None where all pairs are summed. NODES: weights of any size and sign;
    units have 1 / their number.
    """
    if SORTED:
        kernel = _gaps(z, live, running[1], running[2])
        missing, density = _sweeps(kernel, q, running[0])
        # the weight of the points above, less that of those below
        if NODES:
            below = tl.associative_scan(q, 1, _add)
            ahead = tl.sum(q, 1, keep_dims=True) - 2.0 * below + q
        else:
            count = running[2]
            ahead = (count - 1 - 2 * tl.arange(0, z.shape[1])[None, :]).to(tl.float32) / count
        potential = ahead - missing
    else:
        value, kernel = value_and_slope(z[:, :, None] - z[:, None, :], SIGMA)
        potential = tl.sum(value * q[:, :, None], 1)
        density = tl.sum(kernel * q[:, :, None], 1)
    return potential, density, kernel


@triton.jit
def times(kernel, v, running, SORTED: tl.constexpr):
    """sum_r v_r s'(z_r - z_s) for every point s."""
    if SORTED:
        _, result = _sweeps(kernel, v, running[0])
    else:
        result = tl.sum(kernel * v[:, :, None], 1)
    return result


@triton.jit
def in_order(u, target, c):
    """u with target + u in order again, where a step has made points cross.

    Differences of z are at least those of the target times 1 / (1 + |c|), 1 for c > 0; half of that
    is enforced.
    """
    rest = 1.0 - tl.where(c > 0, 0.5, 0.5 / (1.0 - c))
    place = u + rest * target
    reached = tl.associative_scan(place, 1, _larger)
    return tl.where(place < reached, reached - rest * target, u)


@triton.jit
def _gaps(z, live, memory, count):
    """The distances of each point to the one before and to the one after it."""
    s = tl.arange(0, z.shape[1])[None, :]
    # a neighbor may be in another thread: by way of memory, which takes fewer steps than shuffles
    tl.debug_barrier()
    tl.store(memory + s, z, mask=live)
    tl.debug_barrier()
    before = tl.load(memory + s - 1, mask=live & (s > 0), other=-FAR)
    after = tl.load(memory + s + 1, mask=live & (s + 1 < count), other=FAR)
    return tl.maximum(z - before, 0.0), tl.maximum(after - z, 0.0)


@triton.jit
def _sweeps(gaps, v, exponentials):
    """sum_r v_r (1 - tanh |z_r - z_s|) sign(z_r - z_s), and sum_r v_r sech^2(z_r - z_s).

    Each running sum counts the point itself: the first result does not feel it, the second has it
    once too often. Written as differences to the first running sum, so that a crowd of points in
    one place adds up exactly.
    """
    down, up = gaps
    below, above = _running_sums(down, up, v, tl.load(exponentials))
    odd = above - below
    even = above + below
    missing = odd
    slope = even - v
    # as many as a number in memory says: a loop of known length would be written out, twelve scans
    for j in range(1, tl.load(exponentials + 3 * TERMS).to(tl.int32)):
        below, above = _running_sums(down, up, v, tl.load(exponentials + j))
        missing += tl.load(exponentials + TERMS + j) * ((above - below) - odd)
        slope += tl.load(exponentials + 2 * TERMS + j) * ((above + below) - even)
    return missing, slope


@triton.jit
def _running_sums(down, up, v, rate):
    """sum_{r <= s} v_r exp(-rate (z_s - z_r)), and the same from the right."""
    _, below = tl.associative_scan((tl.exp(-rate * down), v), 1, _decay)
    _, above = tl.associative_scan((tl.exp(-rate * up), v), 1, _decay, reverse=True)
    return below, above


@triton.jit
def _decay(left, sum_left, right, sum_right):
    return left * right, sum_left * right + sum_right


@triton.jit
def _larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def _add(a, b):
    return a + b
