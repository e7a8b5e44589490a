"""Every check by name, in the order of the report; a module is loaded when it is asked for."""

from importlib import import_module

from ibnn.lab.registry import Registry
from ibnn.lab.theory_checks.check import Check

# name -> the check itself, or the module whose function `section` is the check
_OWN = ("solutions", "jacobians", "expressivity", "memorization", "stealth", "transfer")
_CHECKS: Registry[Check | str] = Registry(
    "check", {name: f"ibnn.lab.theory_checks.{name}.section" for name in _OWN}
)


def names() -> tuple[str, ...]:
    """The checks there are, in the order of the report."""
    return tuple(_CHECKS)


def register_check(name: str, check: Check | str) -> None:
    """Add a check as the last section of every report.

    Args:
        name: of the section, of its CSV file and of its place in `--sections`.
        check: a function of (context, progress) that returns a `Section`, or the name of a module
            with such a function called `section`.

    Raises:
        ValueError: another check has this name.
    """
    _CHECKS.register(name, check)


def load(name: str) -> Check:
    check = _CHECKS.find(name)
    return import_module(check).section if isinstance(check, str) else check
