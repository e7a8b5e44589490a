"""Options from three places: the command line, a TOML file, defaults; in that order."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ibnn.lab.training import OpenedNetwork

Checkpoint = Annotated[Path, typer.Argument(help="A run's folder, or a file from `ibnn convert`.")]
Data = Annotated[
    Path | None, typer.Option("--data", help="Folder of datasets (default: $IBNN_DATA or a cache).")
]
Config = Annotated[
    Path | None, typer.Option(help="TOML file with any of these options; the command line wins.")
]
OtherDevice = Annotated[
    str | None, typer.Option(help="auto, cpu (the default), cuda, cuda:1, mps, ...")
]
Device = Annotated[
    str, typer.Option(help="auto, cpu, cuda, cuda:1, mps, ...; not part of a run's identity.")
]
Log = Annotated[
    list[str] | None,
    typer.Option(help="Also log runs to a listener (tensorboard); may be repeated."),
]

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pyright: ignore[reportMissingImports]


def read_settings(file: Path | None, known: Iterable[str]) -> dict[str, Any]:
    """The keys of a TOML file; an unknown one is an error that names the nearest."""
    if file is None:
        return {}
    try:
        values = tomllib.loads(file.read_text())
    except FileNotFoundError:
        raise typer.BadParameter(f"--config: {file} does not exist") from None
    except IsADirectoryError:
        raise typer.BadParameter(f"--config: {file} is a folder, expected a TOML file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"--config: {file} is not TOML: {error}") from None
    values = {key.replace("-", "_"): value for key, value in values.items()}
    names = list(known)
    for key in values:
        if key not in names:
            near = difflib.get_close_matches(key, names, n=1, cutoff=0.0)[0]
            raise typer.BadParameter(
                f"--config: {file} has the unknown key {key!r}, did you mean {near!r}?"
            )
    return values


def typed(values: Mapping[str, Any], kinds: Mapping[str, type], file: Path | None) -> None:
    """Refuse values of a TOML file that are of another type."""
    for key, kind in kinds.items():
        value = values.get(key)
        if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            wanted = {"int": "a whole number", "str": "a text", "list": "a list of texts"}[
                kind.__name__
            ]
            raise typer.BadParameter(f"--config: {file}: {key} is {value!r}, expected {wanted}")


def refuse_given(command: typer.Context, without_effect: Mapping[str, str]) -> None:
    """Refuse options of the command line that do nothing here; of each the mapping says why."""
    for option in command.command.params:
        source = command.get_parameter_source(option.name or "")
        if option.name in without_effect and source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(
                f"{option.opts[0]} has no effect {without_effect[option.name]}"
            )


def refuse_large(option: str, eps: float, norm: str) -> None:
    """Refuse a radius that reaches from any image to any other, as 8 for 8/255 does."""
    if norm == "linf" and eps > 1:
        raise typer.BadParameter(
            f"{option} is {eps:g}, expected at most 1: pixels are in [0, 1], so 8/255 is 0.0314"
        )


def prepare_folder(folder: Path) -> Path:
    """Make the output folder and check that it can be written to, before any work is done."""
    from ibnn.lab import files

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with files.atomic(folder / ".writable") as file:
            file.write(b"yes")
        (folder / ".writable").unlink()
    except FileExistsError:
        raise typer.BadParameter(
            f"cannot write to {folder}: expected a folder, not a file"
        ) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise typer.BadParameter(f"cannot write to {folder}: {reason}") from None
    return folder


def refuse_folder(file: Path) -> None:
    """Refuse a folder where --out is a file, before any work is done."""
    if file.is_dir():
        raise typer.BadParameter(f"--out: {file} is a folder, expected the name of a file")


def open_checkpoint(checkpoint: Path) -> OpenedNetwork:
    """The network of a run or of a file; a path that is not there is named as such."""
    from ibnn.lab.training import open_network

    if not checkpoint.exists():
        raise typer.BadParameter(
            f"{checkpoint} does not exist, expected a run's folder (results/runs/<identity>, see "
            "`ibnn runs list`) or a file from `ibnn convert`"
        )
    return open_network(checkpoint)
