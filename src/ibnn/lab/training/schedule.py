"""The learning rate: the paper's triangle over the epochs, or a cosine over the steps."""

import math


def triangle(epoch: int, epochs: int, low: float, high: float) -> float:
    """The learning rate of `epoch` (from 0) in a run of `epochs`.

    A straight line up over the first half, its mirror image over the second: the paper's 80
    epochs touch `high` in epochs 39 and 40; shorter runs squeeze the same triangle. One or two
    epochs leave no room for a slope and use `high`.

    >>> [round(triangle(epoch, 5, 0.001, 0.01), 4) for epoch in range(5)]
    [0.001, 0.0055, 0.01, 0.0055, 0.001]
    """
    if not 0 <= epoch < epochs:
        raise ValueError(f"epoch is {epoch}, expected 0 to {epochs - 1}")
    peak = (epochs - 1) // 2
    if peak == 0:
        return high
    up = min(epoch, epochs - 1 - epoch) / peak
    return (1 - up) * low + up * high


def cosine(done: float, low: float, high: float, warmup: float = 0.0) -> float:
    """The learning rate when the fraction `done` of a training is done.

    A straight line from `low` to `high` over the fraction `warmup`, then half a cosine back.

    >>> [round(cosine(done, 0.0, 1.0, warmup=0.2), 3) for done in (0.0, 0.1, 0.2, 0.6, 1.0)]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    if not 0 <= done <= 1:
        raise ValueError(f"done is {done}, expected a number in [0, 1]")
    if done < warmup:
        return low + (high - low) * done / warmup
    angle = math.pi * (done - warmup) / (1 - warmup)
    return low + (high - low) * (1 + math.cos(angle)) / 2
