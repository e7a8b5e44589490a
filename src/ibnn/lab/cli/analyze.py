"""`ibnn analyze`: the paper's theory, measured on a trained network."""

from pathlib import Path
from typing import Annotated

import typer

from ibnn.lab.cli.choices import Checkpoint, Data, Device, open_checkpoint, prepare_folder
from ibnn.lab.cli.convert import converted
from ibnn.lab.cli.errors import Debug, RunsFailedError, StoppedError


def analyze(
    checkpoint: Checkpoint,
    lam: Annotated[
        float | None, typer.Option(help="Convert a standard network to this lam first.")
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="Dataset other than the run's own; see `ibnn data list`.")
    ] = None,
    data: Data = None,
    sections: Annotated[
        str | None, typer.Option(help="Only these, with commas: solutions,jacobians.")
    ] = None,
    images: Annotated[
        int | None, typer.Option(help="Training images to measure on (default: 128).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the sample of images and directions.")] = 0,
    float64: Annotated[
        bool, typer.Option("--float64", help="Measure in double precision.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer images, lam and directions.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder of the report.")] = Path("analysis"),
    device: Device = "cpu",
    debug: Debug = False,
) -> None:
    """Measure the paper's theory on a trained network: solutions, Jacobians, expressivity,
    memorization, a stealth attack, transfer. Writes one page with PNG, CSV and JSON beside it.
    """
    from ibnn.lab import data as datasets
    from ibnn.lab.models import implicit_layers
    from ibnn.lab.plotting.style import style
    from ibnn.lab.progress import Steps
    from ibnn.lab.report.analysis import write_analysis
    from ibnn.lab.theory_checks.run import chosen_checks, context_for, run_checks
    from ibnn.lab.training import choose_device, environment, load_dataset
    from ibnn.lab.training.device import describe
    from ibnn.lab.training.environment import hardware_lines

    place = choose_device(device)
    names = chosen_checks(None if sections is None else sections.split(","))
    opened = open_checkpoint(checkpoint)
    if lam is not None:
        opened = converted(opened, lam, "leave --lam out to analyze it as it is")
    if not implicit_layers(opened.network):
        raise typer.BadParameter(
            f"{checkpoint} is a standard network; --lam -0.1 converts it for the analysis"
        )
    chosen = datasets.load(dataset, data) if dataset else load_dataset(opened.config, data)
    if chosen.is_text:
        raise typer.BadParameter(
            f"{chosen.name} is text: the analysis differentiates by the input, which must be "
            "images or points"
        )
    if chosen.image_shape != opened.image_shape:
        raise typer.BadParameter(
            f"--dataset {chosen.name} has examples of shape {chosen.image_shape}, "
            f"the network expects {opened.image_shape}"
        )
    prepare_folder(out)
    network = (opened.network.double() if float64 else opened.network).to(place)
    count = (32 if quick else 128) if images is None else images
    context = context_for(network, chosen, images=count, seed=seed, quick=quick)
    try:
        with style(), Steps() as steps:

            def on_progress(section: str):
                steps.begin(section)
                return lambda done, total, what: steps(done, total, f"{section}: {what}")

            found = run_checks(context, names, on_progress)
    except KeyboardInterrupt:
        raise StoppedError("stopped before the report was written") from None
    page = write_analysis(
        found,
        out,
        title=opened.title(),
        settings=[
            ("Network", f"{checkpoint}, {opened.title()}"),
            ("Data", f"{chosen.name}, {len(context.x)} training images, seed {seed}"),
            ("Precision", str(context.x.dtype).removeprefix("torch.")),
            ("Sections", ", ".join(f"{n} ({s:.1f} s)" for n, s in found.seconds.items())),
            *([("Reduced", "fewer images, lam and directions (--quick)")] if quick else []),
        ],
        hardware=hardware_lines([{**environment(), "devices_used": [describe(place)]}]),
    )
    for name, reason in found.skipped.items():
        typer.echo(f"{name}: not measured, {reason}")
    typer.echo(f"report: {page}")
    if found.failed:
        listed = ", ".join(
            f"{name} ({trace.strip().splitlines()[-1]})" for name, trace in found.failed.items()
        )
        raise RunsFailedError(f"failed: {listed}; {out / 'analysis.json'} says where")
