"""Exit codes and the one-line message of an error.

0 done; 1 some runs failed (or a bug); 2 nothing was done: bad option, no data, no disk;
130 stopped by Ctrl-C.
"""

import errno
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

FAILED, REFUSED, STOPPED = 1, 2, 130

Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


class StoppedError(Exception):
    """Ctrl-C, with how to resume."""


@contextmanager
def stoppable() -> Iterator[None]:
    """Turns Ctrl-C into an error that keeps its message (typer would drop it)."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise StoppedError(str(error)) from error


class RunsFailedError(Exception):
    """Some runs failed; the others have results."""


def explain(error: Any) -> tuple[int, str]:
    """The exit code and the line for whatever came out of a command."""
    if isinstance(error, SystemExit):
        return (error.code if isinstance(error.code, int) else FAILED), ""
    stopped = isinstance(error, KeyboardInterrupt | typer.Abort | StoppedError)
    if stopped or getattr(error, "exit_code", None) == STOPPED:
        words = _one_line(error) if isinstance(error, StoppedError) else ""
        return STOPPED, words or "stopped; the same command resumes where it was"
    if isinstance(error, typer.Exit):
        return error.exit_code, ""
    if isinstance(error, typer.BadParameter) and error.param is None:  # ours: it names the option
        return REFUSED, _one_line(error.message)
    if hasattr(error, "format_message"):  # typer's own: a bad option or argument
        return REFUSED, _one_line(error.format_message())
    if isinstance(error, RunsFailedError):
        return FAILED, _one_line(error)
    if isinstance(error, OSError):
        return REFUSED, _system(error)
    if isinstance(error, _expected()):
        return REFUSED, _one_line(error)
    kind = type(error).__name__
    return FAILED, f"{kind}: {_one_line(error)} (a bug; --debug shows the traceback)"


def _expected() -> tuple[type[Exception], ...]:
    from ibnn.engine import EngineError
    from ibnn.lab.data import DataError
    from ibnn.lab.experiments.experiment import ExperimentError
    from ibnn.lab.plugins import PluginError
    from ibnn.lab.report.page import ReportError
    from ibnn.lab.runner import RunnerError
    from ibnn.lab.theory_checks.run import TheoryCheckError
    from ibnn.lab.training import RunError

    return (
        DataError,
        EngineError,
        ExperimentError,
        PluginError,
        ReportError,
        RunnerError,
        RunError,
        TheoryCheckError,
    )


def _system(error: OSError) -> str:
    # of a renaming the goal is the one the user named, the other a temporary file
    named = error.filename2 or error.filename
    where = f": {named}" if named else ""
    if error.errno == errno.ENOSPC:
        return f"the disk is full{where}; free some space and run the same command again"
    return f"{_one_line(error.strerror or error)}{where}"


@contextmanager
def own_warnings_in_one_line() -> Iterator[None]:
    """Warnings of ours go to stderr without the line of Python that caused them, each once."""
    usual, told = warnings.showwarning, set[str]()

    def show(message: Warning | str, category: type[Warning], *where: Any, **others: Any) -> None:
        if not category.__module__.startswith("ibnn."):
            usual(message, category, *where, **others)
        elif (line := _one_line(message)) not in told:
            told.add(line)
            print(f"ibnn: {line}", file=sys.stderr)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = usual


def _one_line(text: Any) -> str:
    return " ".join(str(text).split())
