"""Numbers as a reader of the report likes them."""

from __future__ import annotations


def counted(number: int, what: str) -> str:
    """
    >>> counted(1, "layer"), counted(2, "layer")
    ('1 layer', '2 layers')
    """
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def share(value: float) -> str:
    """A share as a percentage of two digits, also where it is small.

    >>> share(0.9), share(0.00634), share(0.0), share(1.1)
    ('90 %', '0.63 %', '0 %', '110 %')
    """
    if value != value:
        return "-"
    return f"{100 * value:.0f} %" if value >= 0.0995 or value == 0 else f"{100 * value:.2g} %"


def short(value: float) -> str:
    """Three digits; nothing that rounding left over.

    >>> short(2.2e-16), short(0.25), short(-0.0)
    ('0', '0.25', '0')
    """
    return "0" if abs(value) < 1e-12 else f"{value:.3g}"
