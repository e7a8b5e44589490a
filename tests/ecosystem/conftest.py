"""timm imports torchvision at its top, which not every build of torch has: a stand-in will do."""

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pytest


class _Names(type):
    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return f"{cls.__name__}.{name}"  # the members of what was an enumeration


class _Anything(ModuleType):
    """A module, or a package, in which every name is an empty class; no model uses one."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = _Names(name, (), {"__init__": lambda self, *args, **options: None})
        setattr(self, name, found)
        return found


class _StandIn(MetaPathFinder, Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        own = fullname == "torchvision" or fullname.startswith("torchvision.")
        return importlib.util.spec_from_loader(fullname, self) if own else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        made = _Anything(spec.name)
        made.__path__ = []  # a package: anything may be imported from below it
        return made

    def exec_module(self, module: ModuleType) -> None:
        pass


def _works() -> bool:
    try:
        import torchvision  # type: ignore[import-not-found]  # noqa: F401
    except Exception:  # absent, or built for another torch, which fails in many ways
        return False
    return True


@pytest.fixture(scope="session")
def timm() -> Any:
    """timm, if it is installed."""
    if importlib.util.find_spec("timm") is None:
        pytest.skip("timm is not installed (make test-ecosystem installs it)")
    if not _works():
        for name in [n for n in sys.modules if n.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        sys.meta_path.insert(0, _StandIn())
    import timm  # pyright: ignore[reportMissingImports]

    return timm
