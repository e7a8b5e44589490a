"""The benchmarks behind `ibnn bench`: what the implicit bias costs, beside what it could cost."""

from ibnn.lab.bench.run import run
from ibnn.lab.bench.settings import SECTIONS, Settings

__all__ = ["SECTIONS", "Settings", "run"]
