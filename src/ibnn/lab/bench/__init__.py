"""The benchmarks behind `ibnn bench`: what the implicit bias costs, beside what it could cost."""

from ibnn.lab.bench.run import run
from ibnn.lab.bench.settings import SECTIONS, BenchSettings

__all__ = ["SECTIONS", "BenchSettings", "Settings", "run"]

Settings = BenchSettings  # its name in 0.1
