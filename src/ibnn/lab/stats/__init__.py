"""Numbers over seeds and curves, and how a reader likes them written. Imports nothing above it."""

from ibnn.lab.stats.curves import (
    Band,
    band,
    median_curve,
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
    saving,
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
    "paired",
    "percent",
    "percent_short",
    "reaches",
    "running_mean",
    "saving",
    "sentence",
    "short",
    "signed",
    "spread",
]
