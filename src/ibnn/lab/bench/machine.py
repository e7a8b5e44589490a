"""What the numbers were measured on: processor, threads, versions, compiler."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import torch

from ibnn.lab.bench import engines
from ibnn.lab.training.environment import environment

# What changes the speed without being part of the code.
VARIABLES = (
    "OMP_NUM_THREADS",
    "OMP_WAIT_POLICY",
    "OMP_PROC_BIND",
    "GOMP_SPINCOUNT",
    "KMP_BLOCKTIME",
    "MKL_NUM_THREADS",
    "IBNN_NATIVE",
)


def machine() -> dict[str, Any]:
    """Everything needed to judge or repeat a measurement, nothing that names a person or a path."""
    return {
        **environment(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "interop_threads": torch.get_num_interop_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "native_engine": engines.available("native"),
        "compiler": _compiler(),
        "load_at_start": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "variables": {name: os.environ.get(name, "not set") for name in VARIABLES},
    }


def describe(machine: dict[str, Any]) -> str:
    """One paragraph for the head of a table."""
    variables = ", ".join(f"{name} {value}" for name, value in machine["variables"].items())
    native = "available" if machine["native_engine"] else "not available"
    load = machine["load_at_start"]
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['threads']} threads, "
        f"torch {machine['torch']} ({machine['cpu_capability']}), Python {machine['python']}, "
        f"ibnn {machine['ibnn']}, native engine {native}, compiler {machine['compiler']}, "
        f"load at start {'unknown' if load is None else f'{load:.1f}'}; {variables}"
    )


def _compiler() -> str:
    for name in (os.environ.get("CXX"), "c++", "g++", "clang++"):
        if name and (path := shutil.which(name)):
            version = subprocess.run([path, "--version"], capture_output=True, text=True)
            first = version.stdout.splitlines()[:1]
            return first[0] if first else Path(path).name
    return "none"
