"""A trained standard network becomes an implicit-bias one with the same weights, and back."""

from ibnn.conversion.convert import conversion_report, convert, standard
from ibnn.conversion.report import Conversion

__all__ = ["Conversion", "conversion_report", "convert", "standard"]
