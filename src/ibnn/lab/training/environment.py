"""Where a run was trained: versions, threads, processor. Kept beside its result."""

import platform
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import torch


def environment() -> dict[str, Any]:
    """What must be equal for two runs to give the same bits, and what explains their speed."""
    return {
        "ibnn": _version("ibnn"),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": _cpu(),
        "threads": torch.get_num_threads(),
    }


def hardware_lines(environments: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """For readers; more than one value where runs came from several places."""

    def every(key: str) -> str:
        return " / ".join(sorted({str(place.get(key, "unknown")) for place in environments}))

    # of runs of 0.1 it is not known, and was the processor
    used = [place.get("devices_used", ["cpu"]) for place in environments]
    moved = sum(len(devices) > 1 for devices in used)
    devices = " / ".join(sorted({name for devices in used for name in devices}))
    return [
        ("Device", devices + (f"; runs that moved to another: {moved}" if moved else "")),
        ("Processor", every("cpu")),
        ("Threads", every("threads")),
        ("System", every("platform")),
        ("Versions", f"ibnn {every('ibnn')}, torch {every('torch')}, Python {every('python')}"),
    ]


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
