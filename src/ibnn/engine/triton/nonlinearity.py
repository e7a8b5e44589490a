"""sigma and its derivatives inside a kernel, in the units where sigma has slope 1."""

import triton
import triton.language as tl

TANH = tl.constexpr(0)
ARCTAN = tl.constexpr(1)
ERF = tl.constexpr(2)

# what a launch passes as SIGMA
CODES = {"tanh": 0, "arctan": 1, "erf": 2}


@triton.jit
def value_and_slope(x, SIGMA: tl.constexpr):
    """s(x) and s'(x), each to a few roundings of its own size: rows may be very narrow."""
    if SIGMA == TANH:
        e = tl.exp(-2.0 * tl.abs(x))
        share = 1.0 / (1.0 + e)
        far = (1.0 - e) * share
        # 1 - e has lost its digits near 0; the first term left out is 9e-3 x^10
        w = x * x
        near = 1.0 + w * (-1 / 3 + w * (2 / 15 + w * (-17 / 315 + w * (62 / 2835))))
        value = tl.where(w < 0.09, x * near, tl.where(x < 0, -far, far))
        slope = 4.0 * e * share * share
    elif SIGMA == ARCTAN:
        value = 0.6366197723675814 * _arctangent(1.5707963267948966 * x)
        slope = 1.0 / (1.0 + 2.4674011002723395 * x * x)
    else:
        value = tl.erf(0.886226925452758 * x)
        slope = tl.exp(-0.7853981633974483 * x * x)
    return value, slope


@triton.jit
def _arctangent(x):
    """Abramowitz & Stegun 4.4.49 on [0, 1], error 2e-8 relative to x."""
    m = tl.abs(x)
    big = m > 1.0
    u = tl.where(big, 1.0 / m, m)
    w = u * u
    p = 0.0028662257 * w - 0.0161657367
    p = p * w + 0.0429096138
    p = p * w - 0.0752896400
    p = p * w + 0.1065626393
    p = p * w - 0.1420889944
    p = p * w + 0.1999355085
    p = p * w - 0.3333314528
    p = (p * w + 1.0) * u
    p = tl.where(big, 1.5707963267948966 - p, p)
    return tl.where(x < 0, -p, p)


@triton.jit
def derivative(x, ORDER: tl.constexpr, SIGMA: tl.constexpr):
    """The derivative s_n(x) of order 0 to 3."""
    value, slope = value_and_slope(x, SIGMA)
    if ORDER == 0:
        result = value
    elif ORDER == 1:
        result = slope
    elif SIGMA == TANH:
        if ORDER == 2:
            result = -2.0 * value * slope
        else:
            result = -2.0 * slope * (slope - 2.0 * value * value)
    elif SIGMA == ARCTAN:
        if ORDER == 2:
            result = -4.934802200544679 * x * slope * slope
        else:
            result = 4.934802200544679 * slope * slope * (3.0 - 4.0 * slope)
    else:
        # clamped, or x = 1e30 would give inf * 0
        x = tl.minimum(tl.maximum(x, -30.0), 30.0)
        if ORDER == 2:
            result = -1.5707963267948966 * x * slope
        else:
            result = (2.4674011002723395 * x * x - 1.5707963267948966) * slope
    return result
