"""Where the `ibnn` command starts: beside the package, since importing that imports torch.

Two things must be settled before torch is there: help and completion, which do without it, and how
its idle threads wait.
"""

import os
import sys
from pathlib import Path
from types import ModuleType

# What typer asks a command that is to complete a line for the shell.
COMPLETION = "_IBNN_COMPLETE"


def main() -> None:
    # Waiting threads sleep: those that spin take the cores from the ones they wait for, and on a
    # busy machine tiny networks train 25 times slower (2 threads on 2 cores with other work).
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if COMPLETION in os.environ or {"-h", "--help"} & {*sys.argv[1:]} or len(sys.argv) == 1:
        _package_without_torch()
    from ibnn.__main__ import main as run

    run()


def _package_without_torch() -> None:
    """`ibnn` as a bare folder of modules: this process prints what the commands are, and ends."""
    package = ModuleType("ibnn")
    package.__path__ = [str(Path(__file__).with_name("ibnn"))]
    sys.modules["ibnn"] = package
