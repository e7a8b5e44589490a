"""A run in numbers: one frozen dataclass, whose hash is the run's identity."""

from __future__ import annotations

import difflib
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from ibnn import sigma as sigmas
from ibnn import solver as solvers
from ibnn.lab.models import network_kind, network_names, neuron_kind, neuron_names
from ibnn.lab.models.transformer import PLACES
from ibnn.lab.registry import expected
from ibnn.lab.training.errors import ConfigError

# Raised when the same config would train to other numbers than before: every identity changes.
PROTOCOL = 1

CHOICES: dict[str, tuple[str, ...]] = {
    "initialisation": ("paper", "torch"),
    "coupling": ("space", "channels", "layer", "window"),
    "window_profile": ("box", "gaussian"),
    "adjoint": ("implicit", "unrolled", "jfb"),
    "dtype": ("float32", "float64"),
    "adversarial_norm": ("linf", "l2"),
    "place": tuple(PLACES),
    "optimizer": ("sgd", "adamw"),
    "schedule": ("triangle", "cosine"),
    "augmentation": ("none", "crop-flip"),
}

# Fields of one kind of network or neuron: only those its kind names change the result.
SIZES = (
    *("layers", "channels", "hidden"),
    *("width", "depth", "heads", "patch", "context", "place"),
)
NEURON = neuron_kind("implicit").fields


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One training of one network. Two runs are the same run when `identity()` is equal.

    A default may never be changed and a field never be renamed without raising `PROTOCOL`:
    the identity holds only what differs from the defaults, so that a new field with a default
    leaves the identity of every older run as it was.

    >>> RunConfig(dataset="digits", epochs=3).identity()
    '6ca99e943534'
    """

    # the data
    dataset: str  # a name, or the path of a file; of a file only `data_checksum` counts
    data_checksum: str | None = None  # of that file's contents, see `with_checksum`
    share: float = 1.0  # of the training data, stratified by class
    label_noise: float = 0.0  # fraction of training labels replaced by a wrong one
    hold_out: float = 0.0  # fraction of the training data to validate on, for the test split
    n_train: int | None = None  # only the first images of each split
    n_test: int | None = None
    data_seed: int | None = None  # of subset and label noise; `seed` when absent

    # the network
    network: str = "ucn"
    layers: int = 1  # ucn
    channels: int = 3  # ucn
    hidden: int = 3  # perceptron
    width: int | None = None  # resnet20: channels; vit, gpt: features; mlp: units; None: the usual
    depth: int | None = None  # vit, gpt: blocks; mlp: hidden layers; None: the usual
    heads: int = 4  # vit, gpt
    patch: int = 4  # vit: side of a patch
    context: int = 64  # gpt: characters of a piece of text
    place: str = "feed-forward"  # vit, gpt: where the neuron is
    initialisation: str = "paper"
    dtype: str = "float32"

    # the neuron
    neuron: str = "standard"
    lam: float | tuple[float, ...] = 0.0  # where lam starts, or stays; one per layer if several
    learn_lam: bool = True
    slope: float = 10.0
    learn_slope: bool = False
    bounded: bool = True
    coupling: str = "space"  # of convolutions; "window" uses the next four
    window: int = 0
    window_profile: str = "box"
    window_std: float | None = None
    learn_window: bool = False
    sigma: str = "tanh"
    solver: str = "newton"
    adjoint: str = "implicit"
    atol: float | None = None
    rtol: float | None = None
    max_steps: int | None = None

    # the training
    seed: int = 0
    epochs: int = 80
    warmup_epochs: int = 2
    batch_size: int = 128
    lr_low: float = 0.001
    lr_high: float = 0.01
    momentum: float = 0.9
    weight_decay: float = 0.0  # of the optimizer; the neuron's own numbers are left out
    clip: float | None = 1.0  # largest norm of the gradient; None leaves it alone
    validate_every: int = 1  # epochs; the last one is always validated
    adversarial_eps: float = 0.0  # train on images moved this far; 0 trains on them as they are
    adversarial_steps: int = 10  # of projected gradient ascent, for each batch
    adversarial_norm: str = "linf"
    autocast: str | None = None  # "bfloat16": mixed precision while training
    optimizer: str = "sgd"  # adamw: no decay on biases and norms either
    schedule: str = "triangle"  # cosine: from lr_high down to lr_low, step by step
    lr_warmup: float = 0.0  # cosine: fraction of the training in which the rate rises to lr_high
    augmentation: str = "none"  # crop-flip: shifted by up to 4 pixels, half of them mirrored

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, _typed(field, getattr(self, field.name)))
        self._check()

    def identity(self) -> str:
        """Twelve hexadecimal digits that name the run: a hash of what changes its result."""
        return hashlib.sha256(self._canonical().encode()).hexdigest()[:12]

    def title(self) -> str:
        """The run in a few words, for people: `svhn UCN(2,3) implicit lam learnt seed 0`."""
        network, neuron = network_kind(self.network), neuron_kind(self.neuron)
        words = [Path(self.dataset).name, network.title(self), neuron.title(self)]
        words += [f"{100 * self.share:g} % of the data"] if self.share < 1 else []
        words += [f"{100 * self.label_noise:g} % wrong labels"] if self.label_noise else []
        if self.adversarial_eps:
            words.append(f"adversarial {self.adversarial_norm} {self.adversarial_eps:g}")
        words += [f"weight decay {self.weight_decay:g}"] if self.weight_decay else []
        words += [self.autocast] if self.autocast else []
        words += [self.augmentation] if self.augmentation != "none" else []
        return " ".join([*words, f"seed {self.seed}"])

    def replace(self, **changes: Any) -> RunConfig:
        """The same run with other values of some fields.

        >>> RunConfig(dataset="digits").replace(seed=3).seed
        3
        """
        _refuse_unknown(changes)
        return replace(self, **changes)

    def to_json(self) -> str:
        """Every field, one per line, for `config.json`."""
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> RunConfig:
        """Read what `to_json` wrote; unknown keys are errors that name the nearest known one."""
        try:
            values = json.loads(text)
        except json.JSONDecodeError as error:
            raise ConfigError(f"config is not JSON: {error}") from None
        if not isinstance(values, dict):
            raise ConfigError(f"config is a {type(values).__name__}, expected an object")
        return cls.from_dict(values)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RunConfig:
        """A config from a mapping (a TOML table, command line options)."""
        _refuse_unknown(values)
        if "dataset" not in values:
            raise ConfigError("config has no dataset, expected a name such as 'digits'")
        return cls(**values)

    def without_effect(self) -> dict[str, str]:
        """The fields that change nothing in this run, each with the reason."""
        size = set(SIZES) - set(network_kind(self.network).fields)
        neuron = set(NEURON) - set(neuron_kind(self.neuron).fields)
        found = dict.fromkeys(size, f"network is {self.network!r}")
        found |= dict.fromkeys(neuron, f"neuron is {self.neuron!r}")
        if self.coupling != "window":
            names = ("window", "window_profile", "window_std", "learn_window")
            found = dict.fromkeys(names, f"coupling is {self.coupling!r}") | found
        if not self.adversarial_eps:
            names = ("adversarial_steps", "adversarial_norm")
            found |= dict.fromkeys(names, "adversarial_eps is 0")
        if self.optimizer != "sgd":
            found["momentum"] = f"optimizer is {self.optimizer!r}"
        return found

    def _canonical(self) -> str:
        """What is hashed: non-default fields that matter for this kind of network and neuron."""
        unused = set(self.without_effect())
        if self.data_checksum is not None:
            unused.add("dataset")  # where the file lies and what it is called is for people
        kept: dict[str, Any] = {"protocol": PROTOCOL}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in unused and (field.default is MISSING or value != field.default):
                kept[field.name] = value
        return json.dumps(kept, sort_keys=True, separators=(",", ":"), allow_nan=False)

    def _check(self) -> None:
        registered = {
            "network": network_names(),
            "neuron": neuron_names(),
            "sigma": sigmas.names(),
            "solver": solvers.names(),
        }
        for name, known in (registered | CHOICES).items():
            value = getattr(self, name)
            if value not in known:
                raise ConfigError(f"{name} is {value!r}, {expected(value, known)}")
        _demand(self.batch_size >= 2, "batch_size", self, "at least 2 (batch normalization)")
        counts = ("layers", "channels", "hidden", "epochs", "validate_every")
        for name in (*counts, "adversarial_steps", "heads", "patch", "context"):
            _demand(getattr(self, name) >= 1, name, self, "at least 1")
        for name in ("n_train", "n_test", "max_steps", "width", "depth"):
            _demand(
                getattr(self, name) is None or getattr(self, name) >= 1, name, self, "1 or more"
            )
        for name in ("lr_low", "lr_high", "slope"):
            _demand(getattr(self, name) > 0, name, self, "a positive number")
        most = f"at most lr_high, which is {self.lr_high:g}"
        _demand(self.lr_low <= self.lr_high, "lr_low", self, most)
        for name in ("warmup_epochs", "seed", "adversarial_eps", "weight_decay"):
            _demand(getattr(self, name) >= 0, name, self, "0 or more")
        _demand(self.clip is None or self.clip > 0, "clip", self, "a positive number or null")
        _demand(bool(self.dataset), "dataset", self, "a name")
        _demand(self.autocast in (None, "bfloat16"), "autocast", self, "'bfloat16' or null")
        _demand(0 < self.share <= 1, "share", self, "a number in (0, 1]")
        _demand(0 <= self.label_noise <= 1, "label_noise", self, "a number in [0, 1]")
        _demand(0 <= self.hold_out < 1, "hold_out", self, "a number in [0, 1)")
        _demand(0 <= self.momentum < 1, "momentum", self, "a number in [0, 1)")
        _demand(0 <= self.lr_warmup < 1, "lr_warmup", self, "a number in [0, 1)")
        _demand(
            not self.lr_warmup or self.schedule == "cosine",
            "lr_warmup",
            self,
            "0 with schedule 'triangle', which rises by itself",
        )
        if network_kind(self.network).text:
            _demand(not self.adversarial_eps, "adversarial_eps", self, "0: text is not moved")
            _demand(self.augmentation == "none", "augmentation", self, "'none' for text")
        try:
            network_kind(self.network).check(self)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        if isinstance(self.lam, tuple):
            layers = network_kind(self.network).hidden_layers(self)
            wanted = f"one value or {layers}" if layers > 1 else "one value"
            _demand(len(self.lam) == layers, "lam", self, wanted)
        if self.coupling == "window":
            _demand(self.window >= 1, "window", self, "the side of the window, at least 1")
            _demand(
                network_kind(self.network).images, "coupling", self, "'space' (windows need images)"
            )


def _demand(holds: bool, name: str, config: RunConfig, expected: str) -> None:
    if not holds:
        raise ConfigError(f"{name} is {getattr(config, name)!r}, expected {expected}")


def _refuse_unknown(values: Mapping[str, Any]) -> None:
    known = [field.name for field in fields(RunConfig)]
    for key in values:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.0)
            raise ConfigError(f"unknown config key {key!r}, did you mean {near[0]!r}?")


def _typed(field: Field[Any], value: Any) -> Any:
    """The value in the field's own type, so that 1 and 1.0 name the same run."""
    declared = str(field.type).split(" | ")
    if value is None and "None" in declared:
        return None
    if isinstance(value, bool) or "bool" in declared:
        if isinstance(value, bool) and "bool" in declared:
            return value
    elif isinstance(value, str):
        if "str" in declared:
            return value
    elif isinstance(value, list | tuple):
        if "tuple[float, ...]" in declared and value:
            return tuple(_number(field, part) for part in value)
    elif isinstance(value, int | float):
        if "float" in declared:
            return _number(field, value)
        if "int" in declared and math.isfinite(value) and value == int(value):
            return int(value)
    raise ConfigError(f"{field.name} is {value!r}, expected {field.type}")


def _number(field: Field[Any], value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigError(f"{field.name} holds {value!r}, expected a finite number")
    # -0.0 and 0.0 are equal and must be one run.
    return float(value) + 0.0
