"""What hatchling does beside packing files: a wheel holds the compiled CPU engine.

One library for each level of x86-64, by flags that name the level and not the machine that builds.
Without a compiler, on other processors and in editable installs there is none, and the engine is
compiled at first use.
"""

import importlib.util
import logging
import platform
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NATIVE = Path("src/ibnn/engine/native")
LEVELS = ("x86-64", "x86-64-v3", "x86-64-v4")


class NativeEngine(BuildHookInterface):
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        linux = sys.platform == "linux" and platform.machine() == "x86_64"
        if self.target_name != "wheel" or version == "editable" or not linux:
            return
        compiler = _compiler(Path(self.root) / NATIVE / "compiler.py")
        folder = Path(self.root) / NATIVE / "prebuilt"
        folder.mkdir(exist_ok=True)
        try:
            for level in LEVELS:
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


def _compiler(path: Path) -> Any:
    """The package's own module, without importing the package."""
    spec = importlib.util.spec_from_file_location("compiler", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
