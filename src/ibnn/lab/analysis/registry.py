"""Every analysis by name, in the order of the report; loaded only when asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import cast

from ibnn.lab.analysis.section import Progress, Section, Subject

SECTIONS = ("solutions", "jacobians", "expressivity", "memorization", "stealth", "transfer")


def load(name: str) -> Callable[[Subject, Progress], Section | None]:
    """The function `section` of `ibnn.lab.analysis.<name>`."""
    return cast(
        Callable[[Subject, Progress], Section | None],
        import_module(f"ibnn.lab.analysis.{name}").section,
    )
