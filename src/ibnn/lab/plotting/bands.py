"""Medians of several instances as a line, with the band that holds most of them."""

from collections.abc import Sequence

from matplotlib.axes import Axes

from ibnn.lab.stats import band

NINETY = 0.9  # the paper's band of accuracy figures; attacks have the whole range


def draw_band(
    axes: Axes,
    xs: Sequence[float],
    values: Sequence[Sequence[float]],
    *,
    color: str,
    label: str | None = None,
    fraction: float = NINETY,
    marker: str = "",
    line: str = "-",
) -> None:
    """Draw the median of `values[i]` at `xs[i]`, and the quantiles that hold `fraction` of them.

    Places without a value are left out; the label is followed by the number of instances, where
    it ends in "()".
    """
    known = [(x, band(v, fraction)) for x, v in zip(xs, values, strict=True) if v]
    if not known:
        return
    places = [x for x, _ in known]
    low, high = [b.low for _, b in known], [b.high for _, b in known]
    axes.fill_between(places, low, high, color=color, alpha=0.16, linewidth=0)
    if label is not None and label.endswith("()"):
        label = f"{label[:-1]}{max(b.count for _, b in known)})"
    middle = [b.median for _, b in known]
    axes.plot(places, middle, line, color=color, marker=marker, markersize=4, label=label)
