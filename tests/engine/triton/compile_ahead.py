"""Compiles the kernels for GPUs that are not here, and prints what each needs, one JSON a line.

    python -m tests.engine.triton.compile_ahead sm_80,sm_90,gfx942 [kernels whose name has this]

In a process of its own: where Triton's interpreter is at work there is no compiler. `registers` are
those of a thread, `spilled` bytes of a thread that did not fit into them, `instructions` those of
the program, each counted once.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

# what a pointer points to where that is not float32
POINTERS = {"steps_ptr": "*i32", "state_ptr": "*i8"}
NUMBERS = {"rows": "i32", "D": "i32", "resolution": "fp32"}


class Program(NamedTuple):
    """A kernel as a launch would compile it."""

    kernel: Any
    constants: dict[str, Any]
    warps: int

    @property
    def name(self) -> str:
        size = next(v for k, v in self.constants.items() if k in ("S", "N", "ORDER"))
        return f"{self.kernel.__name__}-{size}"


def programs() -> Iterator[Program]:
    """Every kernel with the sizes that it is launched with for rows of 5, 64, 1024 and 4096."""
    from ibnn.engine.triton import launch

    for level in launch.LONG:
        sizes = {"S": level.nodes, "SORTED": level.running, "R": 1, "BLOCK": level.block}
        for kernel in (launch.node_rows.solve_on_nodes, launch.node_rows.adjoint_on_nodes):
            yield Program(kernel, sizes, level.warps)
    for units in (1024, 4096):
        points, at_once = launch._sorted(10**6, units)
        for kernel in (
            launch.sorted_rows.solve_sorted_rows,
            launch.sorted_rows.adjoint_sorted_rows,
        ):
            yield Program(kernel, {"R": at_once, "N": points}, launch._warps(points))
    for units in (5, 64):
        points, at_once = launch._short(10**6, units)
        for kernel in (launch.short_rows.solve_short_rows, launch.short_rows.adjoint_short_rows):
            yield Program(kernel, {"SIGMA": 0, "R": at_once, "N": points}, 4)
    sizes = {"ORDER": 1, "WEIGHTED": True, "SIGMA": 0, "BLOCK": launch.PAIRS}
    yield Program(launch.pair_sums.sum_pairs, sizes, 4)


def needs(program: Program, target: str) -> dict[str, Any]:
    """Compiles, and reads what came out of it."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from ibnn.engine.triton import launch

    cuda = target.startswith("sm_")
    place = GPUTarget("cuda", int(target[3:]), 32) if cuda else GPUTarget("hip", target, 64)
    names = program.kernel.arg_names
    signature, aligned = {}, {}
    for position, name in enumerate(names):
        pointer = name.endswith("_ptr") or name in ("table", "exponentials", "work")
        kind = POINTERS.get(name, "*fp32") if pointer else NUMBERS.get(name, "constexpr")
        signature[name] = kind
        if pointer:
            aligned[(position,)] = [["tt.divisibility", 16]]
    constants = {(names.index(name),): value for name, value in program.constants.items()}
    source = ASTSource(program.kernel, signature, constants, aligned)
    built = triton.compile(
        source, target=place, options={"num_warps": program.warps, **launch.FUSED}
    )
    found = {"kernel": program.name, "target": target, "warps": program.warps}
    found["shared"] = built.metadata.shared
    return found | (_of_cubin(built) if "cubin" in built.asm else _of_gcn(built))


def _of_cubin(built: Any) -> dict[str, int]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(built.asm["cubin"])
        usage = _run("cuobjdump", "--dump-resource-usage", str(file))
        text = _run("nvdisasm", "-c", str(file))
    match = re.search(r"REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)", usage)
    assert match is not None, usage
    registers, stack, local = map(int, match.groups())
    lines = re.findall(r"^\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+ )?([A-Z0-9_.]+)", text, re.M)
    return {"registers": registers, "spilled": stack + local, "instructions": len(lines)}


def _of_gcn(built: Any) -> dict[str, int]:
    text = built.asm["amdgcn"]

    def number(name: str) -> int:
        match = re.search(rf"\.{name}:\s*(\d+)", text)
        assert match is not None, name
        return int(match[1])

    lines = re.findall(r"^\s+[vs]_\w+|^\s+(?:global|ds|buffer|flat)_\w+", text, re.M)
    # of 4 bytes; scalar registers spill into vector ones, not into memory
    spilled = 4 * number("vgpr_spill_count")
    return {"registers": number("vgpr_count"), "spilled": spilled, "instructions": len(lines)}


def _run(tool: str, *arguments: str) -> str:
    import triton

    # they come with Triton
    path = Path(triton.__file__).parent / "backends/nvidia/bin" / tool
    return subprocess.run([path, *arguments], capture_output=True, text=True).stdout


def main(targets: str, part: str = "") -> None:
    os.environ.pop("TRITON_INTERPRET", None)  # before Triton is imported
    for program in programs():
        if part in program.name:
            for target in targets.split(","):
                print(json.dumps(needs(program, target)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
