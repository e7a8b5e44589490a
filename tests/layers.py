"""Imports go one way, from the leaves up: first the neuron's packages, then the laboratory's.

`python tests/layers.py [src/ibnn]` (part of `make lint`) lists every import that does not, also
those inside functions and under TYPE_CHECKING, and every #include of the compiled engine.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "ibnn"

# From the leaves up: a package imports itself and what stands before it.
NEURON = (
    *(
        "_checks",
        "_registry",
        "_tensors",
        "sigma",
        "coupling",
        "theory",
        "solver",
        "engine",
        "_core",
    ),
    *("functional", "nn", "modules", "conversion", "export"),
)
LABORATORY = (
    *("files", "registry", "plugins", "progress", "experiment_table", "results", "stats"),
    *("plotting", "data", "models"),
    *("training", "attacks", "theory_checks", "runner", "experiments", "report", "bench"),
    "playground",
    "cli",
)
COMPILED = ("basics", "sums", "nodes", "rows", "packs", "weighted")  # folders of csrc
ABOVE_ALL = (("__init__",), ("__main__",), ("lab", "__init__"))  # public names, the command


def wrong_imports(source: Path = SOURCE) -> list[str]:
    """One line for each import that goes the wrong way: where, and what is imported."""
    found: list[str] = []
    for file in sorted(source.rglob("*.py")):
        place = file.relative_to(source)
        own = place.with_suffix("").parts
        if own in ABOVE_ALL:
            continue
        for line, name in _imported(ast.parse(file.read_text(encoding="utf-8")), own):
            reason = _wrong(own, name)
            if reason:
                found.append(f"{place}:{line} imports ibnn.{'.'.join(name[:2])}: {reason}")
    return list(dict.fromkeys([*found, *_wrong_includes(source)]))


def _wrong_includes(source: Path) -> Iterator[str]:
    """The same for the folders of C++; files beside them are above all."""
    for file in sorted(source.rglob("csrc/*/*.h")):
        own, place = file.parent.name, file.relative_to(source)
        for line, text in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            included = re.match(r'#include "(?:(\w+)/)?', text)
            if included is None:
                continue
            folder = included[1]
            if folder not in COMPILED or own not in COMPILED:
                yield f"{place}:{line} includes what has no place in {Path(__file__).name}"
            elif COMPILED.index(folder) > COMPILED.index(own):
                yield f"{place}:{line} includes {folder}: {folder} stands above {own}"


def _wrong(own: tuple[str, ...], name: tuple[str, ...]) -> str | None:
    if own[0] == "lab" and name[0] != "lab":
        return "the laboratory uses public names" if name[0].startswith("_") else None
    if own[0] != "lab" and name[0] == "lab":
        return "the neuron never imports the laboratory"
    layers, depth = (LABORATORY, 1) if own[0] == "lab" else (NEURON, 0)
    if len(name) == depth:  # `import ibnn.lab`, which holds nothing
        return None
    for package in (own[depth], name[depth]):
        if package not in layers:
            return f"{package} has no place among the layers of {Path(__file__).name}"
    if layers.index(name[depth]) > layers.index(own[depth]):
        return f"{name[depth]} stands above {own[depth]}"
    return None


def _imported(tree: ast.Module, own: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Every module of ibnn a file imports, as (line, its path below ibnn)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            paths = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = tuple(node.module.split(".")) if node.module else ()
            if node.level:
                base = ("ibnn", *own[: len(own) - node.level], *base)
            paths = [(*base, alias.name) for alias in node.names]
        else:
            continue
        for path in paths:
            if path[0] == "ibnn" and len(path) > 1:
                yield node.lineno, path[1:]


if __name__ == "__main__":
    wrong = wrong_imports(*map(Path, sys.argv[1:]))
    print("\n".join(wrong) if wrong else "Imports go one way.")
    sys.exit(bool(wrong))
