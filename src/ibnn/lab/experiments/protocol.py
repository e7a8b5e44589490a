"""How runs were trained, for readers: all of it is read from their configurations."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, fields

from torch import nn

from ibnn.lab.attacks import Attack
from ibnn.lab.experiments.experiment import Run
from ibnn.lab.models import network_kind, neuron_kind
from ibnn.lab.models.initialize import HEAD_STD, HIDDEN_STD
from ibnn.lab.training import RunConfig
from ibnn.lab.training.optimizer import make_optimizer

Line = tuple[str, str]

# Fields that other lines tell, or that tell runs of one experiment apart.
_TOLD = {
    *("dataset", "n_train", "n_test", "share", "label_noise", "hold_out", "seed", "data_seed"),
    *("network", "layers", "channels", "hidden", "initialisation", "neuron", "epochs", "clip"),
    *("warmup_epochs", "batch_size", "lr_low", "lr_high", "momentum", "validate_every"),
    *("lam", "learn_lam", "slope", "learn_slope", "bounded", "coupling", "sigma", "solver"),
    *("window", "window_profile", "window_std", "learn_window"),
    *("width", "depth", "heads", "patch", "context", "place"),
    *("optimizer", "schedule", "lr_warmup"),
}


def protocol(
    runs: Sequence[Run], *, lam: str | None = None, elsewhere: Sequence[RunConfig] = ()
) -> list[Line]:
    """The lines of a report's settings that every experiment has.

    Args:
        runs: those the report is made of; where they differ, every value is listed.
        lam: how lam was found, where configurations alone do not say it.
        elsewhere: further networks of the report, of which only the results are here.
    """
    configs = [*elsewhere, *(run.config for run in runs)]
    implicit = [c for c in configs if "sigma" in neuron_kind(c.neuron).fields]
    lines = [
        ("Network", _network(runs)),
        *(("Neuron", text) for text in _each(configs, _neuron) if text),
        ("Place", _joined([c for c in configs if c.neuron != "standard"], _place)),
        ("Sigma", _joined(implicit, lambda c: c.sigma)),
        ("Slope p", _joined(implicit, _slope, "; ")),
        ("Coupling", _joined(implicit, _coupling, "; ")),
        ("Solver", _joined(implicit, lambda c: c.solver)),
        ("λ", lam or _lam(configs)),
        ("Training", _joined(configs, _training, "; ")),
        ("Optimizer", _joined(configs, _optimizer, "; ")),
        ("Initialization", _joined(configs, _initialization, "; ")),
        ("Seeds", _seeds(configs)),
        ("Further", _joined(configs, _further, "; ")),
    ]
    return [line for line in lines if line[1]]


def attack_line(attack: Attack, varied: str | None = None) -> str:
    """An attack with its settings, as it has them; what it computes by itself is left out, and so
    is what is `varied`.

    >>> from ibnn.lab.attacks import PGD
    >>> attack_line(PGD(0.1, steps=20))
    'pgd-linf, eps 0.1, steps 20, loss ce, random start True, restarts 1, early stop True'
    """
    found = {field.name: getattr(attack, field.name) for field in fields(attack)}
    settings = (
        f"{name.replace('_', ' ')} {value}"
        for name, value in found.items()
        if value is not None and name not in ("norm", varied)
    )
    return ", ".join((attack.name, *settings))


def _each(configs: Iterable[RunConfig], tell: Callable[[RunConfig], str]) -> list[str]:
    """What `tell` says about the configurations, each thing once and in their order."""
    return list(dict.fromkeys(tell(config) for config in configs))


def _joined(
    configs: Iterable[RunConfig], tell: Callable[[RunConfig], str], between: str = ", "
) -> str:
    return between.join(text for text in _each(configs, tell) if text)


def _network(runs: Sequence[Run]) -> str:
    """The networks by name, and what the images decide: the kernel."""
    configs = [run.config for run in runs]
    titles = _each(configs, lambda c: network_kind(c.network).title(c))
    kinds = _each(configs, lambda c: network_kind(c.network).about)
    modules = runs[0].network().modules()
    made = [f"{_by(part.kernel_size)} kernels" for part in modules if isinstance(part, nn.Conv2d)]
    latest = runs[0].folder.latest()
    if latest is not None:
        made.append(f"inputs of {_by(latest.image_shape)}")
    return "; ".join((f"{', '.join(titles)} ({'; '.join(kinds)})", *dict.fromkeys(made)))


def _by(sides: Iterable[int]) -> str:
    return " x ".join(map(str, sides))


def _neuron(config: RunConfig) -> str:
    """The neuron's equation, unless it is the standard one's."""
    about = neuron_kind(config.neuron).about
    return "" if config.neuron == "standard" else f"{config.neuron}: {about}"


def _place(config: RunConfig) -> str:
    """Of the neuron in a block, where the network has several."""
    return config.place if "place" in network_kind(config.network).fields else ""


def _slope(config: RunConfig) -> str:
    return f"{config.slope:g}" + (" at the start, learnt" if config.learn_slope else "")


def _coupling(config: RunConfig) -> str:
    network = network_kind(config.network)
    if network.tokens:
        return "each unit is coupled to the units of its own token (w = 1/D)"
    if not network.images or config.coupling == "layer":
        return "each unit is coupled to its whole layer (w = 1/D)"
    if config.coupling == "window":
        side, width = config.window, config.window_std
        wide = "" if width is None else f" of width {width:g}"
        learnt = ", learnt" if config.learn_window else ""
        profile = config.window_profile + wide + learnt
        return f"each unit is coupled to {side} x {side} of its channel ({profile})"
    others = {"space": "its channel", "channels": "the channels at its position"}[config.coupling]
    return f"each unit is coupled to {others} (w = 1/D)"


def _lam(configs: Iterable[RunConfig]) -> str:
    having = [c for c in configs if "lam" in neuron_kind(c.neuron).fields]
    fixed = _joined((c for c in having if not c.learn_lam), _start)
    learnt = _joined((c for c in having if c.learn_lam), _learnt, "; ")
    return "; ".join(text for text in (fixed and f"fixed: {fixed}", learnt) if text)


def _start(config: RunConfig) -> str:
    numbers = config.lam if isinstance(config.lam, tuple) else (config.lam,)
    return ", ".join(f"{value:.5g}" for value in numbers)


def _learnt(config: RunConfig) -> str:
    bound = ", kept below the threshold of uniqueness" if config.bounded else ""
    return f"learnt from {_start(config)} with the weights{bound}"


def _training(config: RunConfig) -> str:
    before = f" after {config.warmup_epochs} of warm-up with standard neurons"
    return f"{config.epochs} epochs" + (before if config.warmup_epochs else "")


def _optimizer(config: RunConfig) -> str:
    name = type(make_optimizer(config, nn.Linear(1, 1))).__name__
    clip = "not clipped" if config.clip is None else f"norm at most {config.clip:g}"
    momentum = f", momentum {config.momentum:g}" if config.optimizer == "sgd" else ""
    rate = f"{config.lr_low:g} to {config.lr_high:g} and back"
    if config.schedule == "cosine":
        rise = f", after a rise over {100 * config.lr_warmup:g} % of it" if config.lr_warmup else ""
        rate = f"{config.lr_high:g} to {config.lr_low:g} by a cosine{rise}"
    return f"{name}{momentum}, batch {config.batch_size}, learning rate {rate}, gradient {clip}"


def _initialization(config: RunConfig) -> str:
    known = {
        "paper": f"as published: N(0, {HIDDEN_STD:g}), head N(0, {HEAD_STD:g})",
        "torch": "PyTorch's default",
    }
    return known.get(config.initialisation, config.initialisation)


def _seeds(configs: Sequence[RunConfig]) -> str:
    counts = {
        kind: len({config.seed for config in configs if config.neuron == kind})
        for kind in dict.fromkeys(config.neuron for config in configs)
    }
    listed = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    shared = (
        "; equal seeds share initial weights, data order and subsets" if len(counts) > 1 else ""
    )
    return listed + shared


def _further(config: RunConfig) -> str:
    """Whatever else is not as usual, by the name of its field."""
    found = [
        f"{field.name} {getattr(config, field.name)}"
        for field in fields(config)
        if field.name not in _TOLD
        and field.default is not MISSING
        and getattr(config, field.name) != field.default
    ]
    return ", ".join(found)
