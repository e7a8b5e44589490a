"""Every check by name, in the order of the report; a module is loaded when it is asked for."""

from importlib import import_module

from ibnn.lab.theory_checks.check import Check

# name -> the check itself, or the module whose function `section` is the check
_CHECKS: dict[str, Check | str] = {
    name: f"ibnn.lab.theory_checks.{name}.section"
    for name in ("solutions", "jacobians", "expressivity", "memorization", "stealth", "transfer")
}


def names() -> tuple[str, ...]:
    """The checks there are, in the order of the report."""
    return tuple(_CHECKS)


def register_check(name: str, check: Check | str) -> None:
    """Add a check as the last section of every report.

    Args:
        name: of the section, of its CSV file and of its place in `--sections`.
        check: a function of (context, progress) that returns a `Section`, or the name of a module
            with such a function called `section`.
    """
    if name in _CHECKS:
        raise ValueError(f"name is {name!r}, which is taken; known are {', '.join(_CHECKS)}")
    _CHECKS[name] = check


def load(name: str) -> Check:
    check = _CHECKS[name]
    return import_module(check).section if isinstance(check, str) else check
