"""Which columns of a section are shown, most important first; the saved files have all."""

from __future__ import annotations

import math
from typing import Any

_QUALITY = ("error", "gradient_error", "steps", "converged")

TITLES = {
    "layers": "One layer against nn.Conv2d + ReLU",
    "peers": "What a user could do instead, on the same equation",
    "sigmas": "Every sigma on one layer",
    "training": "One training step, implicit against standard network",
    "growth": "Growth with the number of units D (forward + backward of F)",
    "startup": "The first call of a process, beyond `import torch`",
    "couplings": "The other couplings against the same layer without them",
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
    "sigmas": (
        *("sigma", "lam", "std", "engine", "ratio_both", "ratio_forward", "ms_both"),
        *_QUALITY,
    ),
    "training": ("network", "image", "lam", "engine", "ratio", "ms", "standard_ms", "std"),
    "growth": ("units", "rows", "engine", "ns_per_unit", "seconds", "single_row_seconds"),
    "startup": ("engine", "start", "seconds", "processes"),
    "couplings": (
        *("coupling", "shape", "lam", "ratio_both", "ratio_forward", "ms_both"),
        *("memory_added", "residual", "steps", "converged"),
    ),
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
