"""Runs the sections one after the other, prints their tables, saves everything."""

import importlib.util
import time
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from ibnn.lab.bench import plots, solvers, tables, verdict
from ibnn.lab.bench.machine import describe, machine
from ibnn.lab.bench.settings import SECTIONS, BenchSettings
from ibnn.lab.bench.tables import TITLES
from ibnn.lab.progress import duration

Results = dict[str, list[dict[str, Any]]]


def run(
    settings: BenchSettings, out: Path | None = None, console: Console | None = None
) -> Results:
    """Measures, prints and (with `out`) saves; the rows of each section, and the verdict."""
    console = console or _console()
    if not settings.engines:
        raise RuntimeError(f"engine {settings.engine!r} is not available on this machine")
    here = machine()
    console.print(describe(here), highlight=False)
    notes = _notes(settings)
    for note in notes:
        console.print(note, highlight=False)
    console.print(_beforehand(settings), highlight=False)
    results: Results = {}
    started = time.perf_counter()
    for number, section in enumerate(settings.sections):
        begin = time.perf_counter()
        if not console.is_terminal:  # a bar would not be seen
            console.print(f"{TITLES[section]} ...{_left(settings, number, begin - started)}")
        with console.status(TITLES[section]), warnings.catch_warnings():
            # an even kernel with padding="same" is what the paper has
            warnings.simplefilter("ignore")
            measure = importlib.import_module(f"ibnn.lab.bench.{section}").measure
            results[section] = measure(settings)
        tables.show(console, section, results[section])
        console.print(f"{section}: {time.perf_counter() - begin:.0f} s", highlight=False)
        _save(settings, out, here, results, notes)
    found = verdict.verdicts(results)
    tables.show(console, "verdict", found)
    if out is not None:
        console.print(f"saved in {out}", highlight=False)
    return {**results, "verdict": found}


def _beforehand(settings: BenchSettings) -> str:
    """How long it takes, as far as that is known before anything is measured."""
    number = len(settings.sections)
    if not settings.quick:
        how = "many minutes" if number > 1 else "minutes"
    else:
        seconds = sum(SECTIONS[name] for name in settings.sections)
        how = f"about {duration(seconds)} on an idle machine"
    return f"{number} section{'s' if number > 1 else ''} to measure: {how}"


def _left(settings: BenchSettings, done: int, seconds: float) -> str:
    """How long the sections that are left will take, judged by those before."""
    if not done:
        return ""
    expected = [SECTIONS[name] for name in settings.sections]
    return f" ({duration(seconds * sum(expected[done:]) / sum(expected[:done]))} left)"


def _console() -> Console:
    """A file or a pipe has no width: room for every column."""
    console = Console()
    return console if console.is_terminal else Console(width=200)


def _save(
    settings: BenchSettings,
    out: Path | None,
    here: dict[str, Any],
    results: Results,
    notes: list[str],
) -> None:
    """After every section: what was measured is kept, whatever happens to the next one."""
    if out is None:
        return
    found = verdict.verdicts(results)
    chosen = {**asdict(settings), "rounds": settings.rounds, "engines": settings.engines}
    tables.save(out, here, chosen, results, found, notes)
    pictures = {
        "growth": plots.draw_growth,
        "layers": plots.draw_layers,
        "cliffs": plots.draw_cliffs,
    }
    for section, draw in pictures.items():
        if results.get(section):
            draw(results[section], out / f"{section}.png")


def _notes(settings: BenchSettings) -> list[str]:
    notes = []
    if settings.engine in ("native", "both") and "native" not in settings.engines:
        notes.append("the native engine is not available here: only the portable one is measured")
    if "peers" in settings.sections and not solvers.torchdeq_installed():
        notes.append("torchdeq is not installed (pip install --no-deps torchdeq==0.1.0): left out")
    if "cliffs" in settings.sections and importlib.util.find_spec("timm") is None:
        notes.append("timm is not installed (pip install --no-deps timm): its networks left out")
    if settings.quick:
        notes.append("quick run: fewer conditions and repetitions, no cold compilation")
    return notes
