"""A network in one file, apart from any run: how it is built, what it was converted to, weights.

A run's folder says how a network was trained, and training goes on from it; a converted network was
not trained as it is, so it gets a file of its own.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

import ibnn
from ibnn.lab import files
from ibnn.lab.files import StrPath
from ibnn.lab.training.config import RunConfig
from ibnn.lab.training.errors import CheckpointError, ConfigError
from ibnn.lab.training.folder import CHECKPOINT, CONFIG, PREVIOUS, RunFolder, load_weights
from ibnn.lab.training.network import build_network
from ibnn.lab.training.tensor_file import packed, unpack

KIND, VERSION = "ibnn network", 1


@dataclass(frozen=True)
class Converted:
    """What `ibnn.convert` was told, layer by layer."""

    lam: dict[str, float]
    slope: float = 10.0
    sigma: str = "tanh"
    coupling: str = "space"  # of convolutions

    def apply(self, network: nn.Module) -> nn.Module:
        return ibnn.convert(
            network,
            self.lam,
            only=list(self.lam),
            skip_head=False,
            slope=self.slope,
            sigma=self.sigma,
            coupling=self.coupling,
        )


@dataclass(frozen=True)
class OpenedNetwork:
    """A network ready to be used (in `eval` mode), and where it came from."""

    network: nn.Module
    config: RunConfig  # of the run it was trained in
    image_shape: tuple[int, ...]
    classes: int
    neuron: str  # it was trained with
    converted: Converted | None = None

    def title(self) -> str:
        """In a few words, for people."""
        if self.converted is None:
            bare = self.neuron == "standard" != self.config.neuron  # converted, or in its warm-up
            return self.config.title() + (", without its implicit bias" if bare else "")
        lams = ", ".join(sorted({f"{lam:g}" for lam in self.converted.lam.values()}))
        return f"{self.config.title()}, converted to lam {lams}"

    def convert(self, lam: float, **options: Any) -> OpenedNetwork:
        """With an implicit bias in every layer but the head; options are those of `Converted`."""
        network: Any = ibnn.convert(self.network, lam, **options)
        record = Converted(dict.fromkeys(network.conversion.converted, lam), **options)
        return replace(self, network=network.eval(), converted=record)

    def standard(self) -> OpenedNetwork:
        """Without any implicit bias."""
        network = ibnn.standard(self.network)
        return replace(self, network=network, neuron="standard", converted=None)


def open_network(path: StrPath) -> OpenedNetwork:
    """The network of a run folder, of a checkpoint in one, or of a network file."""
    file = Path(path)
    if file.is_file() and not is_checkpoint(file):
        return read_network(file)
    folder = RunFolder.at(file.parent if file.is_file() else file)
    network, latest = folder.network(), folder.latest()
    assert latest is not None  # or there would be no network
    return OpenedNetwork(
        network, folder.config(), latest.image_shape, latest.classes, latest.neuron
    )


def load_network(path: StrPath) -> nn.Module:
    """The trained network of a run folder, rebuilt from `config.json` and the checkpoint, or that
    of a network file (`ibnn convert` writes them).

    The data is not needed. A run that is still training gives its newest network.
    """
    return open_network(path).network


def is_checkpoint(file: Path) -> bool:
    """Whether it is a run's own checkpoint, not a network file that lies in its folder."""
    return file.name in (CHECKPOINT, PREVIOUS) and (file.parent / CONFIG).is_file()


def write_network(path: StrPath, opened: OpenedNetwork) -> None:
    """Write a network file, whole or not at all."""
    about = {
        "kind": KIND,
        "version": VERSION,
        "config": asdict(opened.config),
        "image_shape": opened.image_shape,
        "classes": opened.classes,
        "neuron": opened.neuron,
        "converted": asdict(opened.converted) if opened.converted else None,
    }
    files.write_bytes(path, packed(about, opened.network.state_dict()))


def read_network(path: StrPath) -> OpenedNetwork:
    """Read and check a network file."""
    about, tensors = unpack(Path(path))
    if (about.get("kind"), about.get("version")) != (KIND, VERSION):
        found = f"{about.get('kind')} {about.get('version')}"
        raise CheckpointError(f"{path} holds {found!r}, expected {KIND} {VERSION}")
    try:
        config = RunConfig.from_dict(about["config"])
    except ConfigError as error:
        raise CheckpointError(f"{path}: {error}") from None
    shape, classes, neuron = tuple(about["image_shape"]), about["classes"], about["neuron"]
    converted = Converted(**about["converted"]) if about["converted"] else None
    network = build_network(config, shape, classes, neuron=neuron)
    network = converted.apply(network) if converted else network
    load_weights(network, tensors)
    return OpenedNetwork(network.eval(), config, shape, classes, neuron, converted)
