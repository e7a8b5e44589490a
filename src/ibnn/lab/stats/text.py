"""Numbers as a reader of the report likes them."""

from collections.abc import Sequence
from statistics import median


def percent(value: float) -> str:
    """An accuracy for people.

    >>> percent(0.9035)
    '90.3 %'
    """
    return f"{100 * value:.1f} %"


def signed(value: float, digits: int = 1) -> str:
    """A difference with its sign; one that would read as zero keeps its first digit, unless it is
    what rounding left over.

    >>> signed(1.24), signed(-0.004), signed(0.0), signed(2e-15)
    ('+1.2', '-0.004', '0.0', '0.0')
    """
    text = f"{value:+.{digits}f}"
    if float(text):
        return text
    return f"{value:+.1g}" if abs(value) > 1e-12 else text.lstrip("+-")


def spread(values: Sequence[float]) -> str:
    """Median and range of accuracies.

    >>> spread([0.5, 0.6, 0.9])
    '60.0 % (50.0 to 90.0)'
    """
    low, high = 100 * min(values), 100 * max(values)
    return f"{percent(median(values))} ({low:.1f} to {high:.1f})"


def counted(number: int, what: str) -> str:
    """
    >>> counted(1, "layer"), counted(2, "layer")
    ('1 layer', '2 layers')
    """
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def percent_short(value: float) -> str:
    """A fraction as a percentage of two digits, also where it is small.

    >>> percent_short(0.9), percent_short(0.00634), percent_short(0.0), percent_short(1.1)
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
