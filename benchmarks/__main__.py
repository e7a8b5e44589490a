"""`python -m benchmarks`: the same as `ibnn bench`."""

import typer

from ibnn.lab.cli.bench import bench

if __name__ == "__main__":
    typer.run(bench)
