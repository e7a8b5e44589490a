"""Rows so narrow that s is a cubic, s(x) = x + a x^3: sums are moments of the row.

The mean of z is that of y, and the deviations t = z - mean solve
    t (1 - c - 3 a c m_2) - a c t^3 = x - a c m_3,    m_k = mean t^k,  x = y - mean.
Elsewhere sums carry rounding errors of size 1, which drown a row of spread 1e-16. Here digits count
from the spread, so there is no smallest one.
"""

import math

import numpy as np
import torch
from torch import Tensor

# s(x) = x + a x^3 + O(b x^5); hardtanh is straight as far as 1
CUBIC = {"tanh": -1 / 3, "erf": -math.pi / 12, "arctan": -(math.pi**2) / 12, "hardtanh": 0.0}
FIFTH = {"tanh": 2 / 15, "erf": math.pi**2 / 160, "arctan": math.pi**4 / 80, "hardtanh": 0.0}
# the fixed point below is right to RATE^STEPS of the spread, and what the fifth power leaves is
# this fraction of it
STEPS = 5
RATE = {torch.float32: 0.02, torch.float64: 5e-4}
LEFT = {torch.float32: 1e-6, torch.float64: 1e-12}


def is_narrow(span: np.ndarray, strength: np.ndarray, sigma: str, dtype: torch.dtype) -> np.ndarray:
    """Which rows are, by the range of z, or a bound of it; never at or above the threshold."""
    if sigma == "hardtanh":
        return (strength < 1) & (span < 1 - 1e-6)
    gain, square = np.maximum(np.abs(strength) / np.maximum(1 - strength, 1e-12), 1), span**2
    slow = 6 * abs(CUBIC[sigma]) * gain * square > RATE[dtype]
    crooked = FIFTH[sigma] * gain * square**2 > LEFT[dtype]
    return (strength < 1) & ~slow & ~crooked


def find_roots(x: Tensor, strength: Tensor, sigma: str) -> tuple[Tensor, Tensor]:
    """z - mean of rows given as deviations from their mean, and the residual of each row."""
    cubic, rest = CUBIC[sigma] * strength, 1 - strength
    t, last = x / rest, x
    for _ in range(STEPS if CUBIC[sigma] else 0):
        square, last = t.square(), t
        second, third = square.mean(1, keepdim=True), (square * t).mean(1, keepdim=True)
        t = (x + cubic * (square * t - third)) / (rest - 3 * cubic * second)
    change = (t - last).abs().amax(1) if CUBIC[sigma] else torch.zeros_like(strength.squeeze(1))
    fifth = FIFTH[sigma] * (t.amax(1) - t.amin(1)) ** 5
    return t, rest.squeeze(1) * change + strength.squeeze(1).abs() * fifth


def solve_jacobian(
    t: Tensor, g: Tensor, strength: Tensor, sigma: str
) -> tuple[Tensor, Tensor, Tensor]:
    """v with J v = g at z = mean + t, a bound of its relative error, and v . B(z)."""
    cubic, rest = CUBIC[sigma] * strength, 1 - strength
    mean = g.mean(1, keepdim=True)  # passes J unchanged
    square = t.square()
    second, third = square.mean(1, keepdim=True), (square * t).mean(1, keepdim=True)
    right = g - mean
    w = right / rest
    kept = rest - 3 * cubic * (second + square)
    for _ in range(STEPS if CUBIC[sigma] else 0):
        first, other = (w * t).mean(1, keepdim=True), (w * square).mean(1, keepdim=True)
        w = (right + 3 * cubic * (2 * first * t - other)) / kept
    bias = CUBIC[sigma] * (third - 3 * second * t - square * t) - t
    span = t.amax(1) - t.amin(1)
    # how much an error of B, as a fraction of it, weighs in v; in v . B it always weighs 1
    gain = (strength.abs() / rest).clamp(min=1).squeeze(1)
    error = 5 * FIFTH[sigma] * gain * span**4
    # B sums to 0: the mean of v adds nothing to the product
    return mean + w, error, (w * bias).sum(1)


def centered(y: Tensor) -> tuple[Tensor, Tensor]:
    """The deviations of a row from its mean, and the mean."""
    first = y[:, :1]
    apart = y - first
    mean = apart.mean(1, keepdim=True)
    return apart - mean, first + mean
