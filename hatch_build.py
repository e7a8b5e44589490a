"""What hatchling does beside packing files: a wheel holds the compiled CPU engine.

One library for the level of x86-64 of the machine that builds, which is where `pip install .` wants
it, in a third of the time that all levels take; with IBNN_LEVELS=all one for each, for a wheel that
is given to others. Where none fits, without a compiler, on other processors and in editable
installs, the engine is compiled at first use.
"""

import importlib.util
import logging
import os
import platform
import shutil
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NATIVE = Path("src/ibnn/engine/native")


class NativeEngine(BuildHookInterface):
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        linux = sys.platform == "linux" and platform.machine() == "x86_64"
        if self.target_name != "wheel" or version == "editable" or not linux:
            return
        compiler, levels = (_module(Path(self.root) / NATIVE, n) for n in ("compiler", "levels"))
        folder = Path(self.root) / NATIVE / "prebuilt"
        shutil.rmtree(folder, ignore_errors=True)  # what an earlier build has left
        folder.mkdir()
        try:
            for level in _wanted(levels):
                output = folder / f"engine-{level}.so"
                compiler.compile_library(output, (*compiler.FLAGS, f"-march={level}"))
                for compiled in folder.glob("*.o"):
                    compiled.unlink()
        except compiler.BuildError as error:
            logging.getLogger("ibnn").warning("the wheel has no compiled engine: %s", error)
            return
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-linux_x86_64"
        for library in sorted(folder.glob("*.so")):
            build_data["force_include"][str(library)] = (
                f"ibnn/engine/native/prebuilt/{library.name}"
            )


def _wanted(levels: Any) -> list[str]:
    """Names of the levels to compile for."""
    asked = os.environ.get("IBNN_LEVELS", "own")
    if asked not in ("own", "all"):
        raise ValueError(f"IBNN_LEVELS is {asked!r}, expected 'own' or 'all'")
    return list(levels.LEVELS) if asked == "all" else list(levels.served_here())[:1]


def _module(folder: Path, name: str) -> Any:
    """A module of the package, without importing the package."""
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
