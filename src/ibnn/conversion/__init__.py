"""A trained standard network becomes an implicit-bias one with the same weights, and back."""

from ibnn.conversion.convert import conversion_report, convert, standard
from ibnn.conversion.plan import LayerPlan, Plan
from ibnn.conversion.report import Conversion

__all__ = ["Conversion", "LayerPlan", "Plan", "conversion_report", "convert", "standard"]
