"""The benchmarks, from a clone: `python -m benchmarks --quick`. The code is `ibnn.lab.bench`."""
