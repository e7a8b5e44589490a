"""Numbers over seeds and curves, and how a reader likes them written. Imports nothing above it."""

from ibnn.lab.stats.curves import (
    Band,
    band,
    median_curve,
    needed_for_common_best,
    reaches,
    running_mean,
)
from ibnn.lab.stats.paired import (
    FEWEST_PAIRS,
    UNKNOWN,
    Paired,
    both_means,
    claim,
    decide,
    difference,
    paired,
    sentence,
)
from ibnn.lab.stats.text import counted, percent, percent_short, short, signed, spread

__all__ = [
    "FEWEST_PAIRS",
    "UNKNOWN",
    "Band",
    "Paired",
    "band",
    "both_means",
    "claim",
    "counted",
    "decide",
    "difference",
    "median_curve",
    "needed_for_common_best",
    "paired",
    "percent",
    "percent_short",
    "reaches",
    "running_mean",
    "sentence",
    "short",
    "signed",
    "spread",
]
