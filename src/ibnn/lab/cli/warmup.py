"""`ibnn warmup`: compile what would be compiled in the first call."""

import time
from typing import Annotated

import typer

from ibnn.lab.cli.choices import Device
from ibnn.lab.cli.errors import Debug


def warmup(
    device: Device = "auto",
    units: Annotated[
        str, typer.Option(help="Row lengths, with commas; a GPU needs a kernel for each.")
    ] = "5,64,1024",
    debug: Debug = False,
) -> None:
    """Compile what the first call would compile: the engine for the processor, and on a GPU the
    Triton kernels for rows of these lengths. Both are kept on disk for later processes."""
    from ibnn.engine import triton
    from ibnn.engine.native import loader
    from ibnn.lab.training import choose_device

    try:
        lengths = [int(part) for part in units.split(",")]
    except ValueError:
        lengths = []
    if not lengths or min(lengths) < 1:
        raise typer.BadParameter(f"--units is {units!r}, expected numbers with commas: 64,1024")
    place = choose_device(device)
    began = time.perf_counter()
    reason = loader.reason_missing()
    state = "ready" if reason is None else f"not available: {reason}"
    typer.echo(f"native: {state} ({time.perf_counter() - began:.1f} s)")
    reason = triton.reason_missing(place.type)
    if reason is not None:
        typer.echo(f"triton: not available: {reason}")
        return
    for count in lengths:
        seconds = triton.warm(place, [count])[count]
        typer.echo(f"triton: rows of {count} units on {place} ready ({seconds:.1f} s)")
