"""Which columns of a section are shown, most important first; the saved files have all."""

import math
from typing import Any

_QUALITY = ("error", "gradient_error", "steps", "converged")

TITLES = {
    "layers": "One layer against nn.Conv2d + ReLU",
    "peers": "What a user could do instead, on the same equation",
    "training": "One training step, implicit against standard network",
    "growth": "Growth with the number of units D (forward + backward of F)",
    "startup": "The first call of a process, beyond `import torch`",
    "cliffs": "By row length, coupling, sigma, precision and network: forward + backward, lam -0.1",
    "busy": "The same solves with another process on each core",
    "accuracy": "Error against the dense float64 solve",
    "verdict": "Numbers to reach",
}

COLUMNS: dict[str, tuple[str, ...]] = {
    "layers": (
        *("shape", "lam", "std", "engine", "ratio_both", "ratio_forward"),
        *("ms_both", "standard_ms_both", *_QUALITY, "memory", "memory_added"),
    ),
    "peers": (
        *("shape", "sums", "lam", "peer", "ratio_to_ours", "ratio_to_conv"),
        *("ms_both", "ms_forward", "error", "gradient_error", "steps", "memory_layer"),
    ),
    "training": ("network", "image", "lam", "engine", "ratio", "ms", "standard_ms", "std"),
    "growth": ("units", "rows", "engine", "ns_per_unit", "seconds", "single_row_seconds"),
    "startup": ("engine", "start", "seconds", "processes"),
    "cliffs": (
        *("case", "std", "ratio", "required", "aim", "state", "low", "high"),
        *("ratio_wall", "ms", "standard_ms", "ms_wall"),
    ),
    "busy": ("case", "std", "slowed", "quiet_ms", "busy_ms", "standard_slowed"),
    "accuracy": ("part", "lam", "slope", "std", "engine", *_QUALITY),
    "verdict": ("name", "state", "measured", "required", "aim", "unit", "where"),
}


def text(value: Any) -> str:
    """A number with the digits that matter; nothing for what was not measured."""
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, float):
        return str(value)
    if not math.isfinite(value):
        return str(value)
    if value and (abs(value) < 1e-3 or abs(value) >= 1e5):
        return f"{value:.1e}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
