"""Peak memory of one call, measured in new processes so that nothing is hidden by reuse.

Each task runs in a process of its own, forked from one that has imported everything and computed
nothing. After a small warm-up (libraries, thread pools, code made at run time) the kernel's
high-water mark of resident memory is reset, the full-size call runs for the first time, and the
mark is read: tensors, the compiled engine's buffers and every other allocation count, also those
that are kept for the next call. malloc is told to give freed blocks back at once.

Beside it stands what torch's own allocator saw (torch.profiler): tensors only. Where the kernel
has no such mark (not Linux), that is all there is, and the method says so.
"""

import gc
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from multiprocessing import get_all_start_methods, get_context
from pathlib import Path
from typing import Any

import torch

from ibnn.lab.bench import engines

Call = Callable[[], object]

_RESET, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")
# Blocks of 64 kB or more are mapped when asked for and unmapped when freed.
_MALLOC = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0"}


@dataclass(frozen=True)
class MemoryTask:
    """`function` ("module:name") called with `arguments` gives a small warm-up and the call."""

    function: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Peak:
    """Bytes above the start: of the whole process (None where unknown), and of torch's tensors."""

    process: int | None
    torch: int

    @property
    def bytes(self) -> int:
        return self.torch if self.process is None else self.process

    @property
    def method(self) -> str:
        return "torch's tensors only" if self.process is None else "resident high-water mark"


def peaks(tasks: Sequence[MemoryTask], engine: str) -> list[Peak]:
    """The peak of each task, with this engine behind the uniform coupling."""
    if not tasks:
        return []
    answer = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "ibnn.lab.bench.memory"],
        input=json.dumps([asdict(task) for task in tasks]),
        env={**engines.environment(engine), **_MALLOC},
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode:
        raise RuntimeError(f"the measurement of memory failed: {answer.stderr.strip()[-500:]}")
    return [Peak(**entry) for entry in json.loads(answer.stdout.splitlines()[-1])]


def measure(warm_up: Call, call: Call) -> Peak:
    """The peak of `call` in this process."""
    warm_up()
    process = _process_peak(call)
    return Peak(process, _torch_peak(call))


def _process_peak(call: Call) -> int | None:
    gc.collect()
    try:
        _RESET.write_text("5")
        before = _status("VmRSS")
        call()
        return max(0, _status("VmHWM") - before)
    except OSError:
        return None


def _status(field: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(field + ":"):
            return 1024 * int(line.split()[1])
    raise OSError(f"{_STATUS} has no {field}")


def _torch_peak(call: Call) -> int:
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        call()
    recorder: Any = profile.profiler
    recorded = recorder.kineto_results.events()
    changes = sorted((e.start_ns(), e.nbytes()) for e in recorded if e.name() == "[memory]")
    level = highest = 0
    for _, change in changes:
        level += change
        highest = max(highest, level)
    return highest


def _measure_task(task: dict[str, Any]) -> dict[str, Any]:
    module, _, name = task["function"].partition(":")
    warm_up, call = getattr(importlib.import_module(module), name)(**task["arguments"])
    return asdict(measure(warm_up, call))


def _main() -> None:
    tasks = json.load(sys.stdin)
    for task in tasks:
        importlib.import_module(task["function"].partition(":")[0])
    if os.environ.get("IBNN_NATIVE") != "0":
        engines.available("native")
    if "fork" in get_all_start_methods():
        with get_context("fork").Pool(1, maxtasksperchild=1) as pool:
            results = pool.map(_measure_task, tasks, chunksize=1)
    else:
        results = [_measure_task(task) for task in tasks]
    print(json.dumps(results))


if __name__ == "__main__":
    _main()
