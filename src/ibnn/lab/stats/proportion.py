"""Proportions of images: their intervals, and when one is lower than another beyond chance."""

import math

from torch import Tensor

FALSE_ALARM = 0.01  # a check that holds fails by chance this often at most
Z = 1.959964  # 95 % of a normal distribution lie within so many standard deviations


def wilson(hits: int, count: int) -> tuple[float, float]:
    """The 95 % interval of a fraction (Wilson 1927): honest also at 0 and 1, and for few images.

    >>> low, high = wilson(0, 100)
    >>> round(low, 3), round(high, 3)
    (0.0, 0.037)
    """
    if not count:
        return 0.0, 1.0
    fraction, spread = hits / count, Z * Z / count
    center = (fraction + spread / 2) / (1 + spread)
    half = Z * math.sqrt(fraction * (1 - fraction) / count + spread / (4 * count)) / (1 + spread)
    return max(0.0, center - half), min(1.0, center + half)


def tail(hits: int, count: int, chance: float) -> float:
    """The probability of `hits` or more out of `count`, each with this chance.

    >>> tail(2, 2, 0.5)
    0.25
    """
    from scipy.stats import binom

    return float(binom.sf(hits - 1, count, chance))


def weaker(attack: Tensor, other: Tensor) -> float:
    """How likely the images broken by `other` alone are if `attack` is at least as strong.

    A sign test on the same images: of those broken by just one of two attacks of equal strength,
    each is the other's with chance 1/2. Below `FALSE_ALARM` the attack is weaker beyond chance; a
    difference of six images or fewer never is (2^-6 > 0.01).
    """
    only_other = int((other & ~attack).sum())
    only_attack = int((attack & ~other).sum())
    return tail(only_other, only_other + only_attack, 0.5)
