"""Installs a wheel into an empty environment without a compiler and holds it to the local build.

    python .ci/check_wheel.py dist/ibnn-*.whl TORCH_VERSION

The same numbers to rounding, from each of the compiled engines that came with the wheel; both are
timed, and the ratio is printed (required of v4 and v3: at most 1.15).
"""

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

SOLVE = """
import json, sys, time, torch, ibnn
torch.set_num_threads(1)
y = torch.randn(192, 1024, generator=torch.Generator().manual_seed(0), requires_grad=True)
def step():
    y.grad = None
    z = ibnn.implicit_bias(y, -0.1, engine="native", on_failure="raise")
    z.square().sum().backward()
    return z
z = step()
times = []
for _ in range(20):
    begin = time.process_time()
    step()
    times.append(time.process_time() - begin)
from ibnn.engine.native import loader
library = loader.library()._name
sums = [x.double().sum(1).tolist() for x in (z, y.grad)]
print(json.dumps([*sums, min(times), library]))
"""


def run(python: Path, environment: dict[str, str]) -> list:
    answer = subprocess.run(
        [python, "-c", SOLVE], env=environment, capture_output=True, text=True, check=False
    )
    if answer.returncode:
        sys.exit(f"the solve failed in {python}:\n{answer.stderr}")
    return json.loads(answer.stdout.splitlines()[-1])


def main(wheel: str, torch_version: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, f"torch=={torch_version}"], check=True)
        subprocess.run([*install, wheel], check=True)
        bare = {"PATH": "", "HOME": folder, "OMP_NUM_THREADS": "1"}
        compare("", run(python, bare), dict(os.environ))
        # as on processors that have less: v3 against a local build of that level, the baseline
        # against the ordinary one, which is faster
        for level, flags in (("x86-64-v3", {"IBNN_CXXFLAGS": "-march=x86-64-v3"}), ("x86-64", {})):
            wheel_s = run(python, {**bare, "IBNN_CPU_LEVEL": level})
            compare(level, wheel_s, {**os.environ, **flags})


def compare(level: str, wheel: list, environment: dict[str, str]) -> None:
    """Hold the wheel's numbers to those of the local build."""
    z, gradient, seconds, library = wheel
    name = Path(library).name
    print(f"library of the wheel: {name}")
    if "prebuilt" not in library or (level and name != f"engine-{level}.so"):
        sys.exit(f"the wheel's own library was not used, but {library}")
    *theirs, local_seconds, _ = run(Path(sys.executable), environment)
    # sums of 1024 float32 numbers of size 1, each right to a few roundings
    for mine, other in zip((z, gradient), theirs, strict=True):
        worst = max(abs(a - b) for a, b in zip(mine, other, strict=True))
        print(f"largest difference of a row's sum from the local build: {worst:.2g}")
        if worst > 2e-3:
            sys.exit("the wheel computes other numbers than the local build")
    print(f"time of a step, wheel over local build: {seconds / local_seconds:.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
