"""The learning rate: a triangle over the epochs, low -> high -> low, set once per epoch."""


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
