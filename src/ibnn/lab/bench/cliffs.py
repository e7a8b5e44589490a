"""What the implicit bias costs by row length, coupling, sigma, precision, and in whole networks.

Each case is a layer (or a network) against the same one without the implicit bias, forward +
backward, lam = -0.1, twice: processor time of one thread, and wall time on all threads. Each of
the two is measured in a process of its own, since the number of threads is a process's. Above the
threshold a solve is compared with the one just below it.
"""

import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

import ibnn
from ibnn.lab.bench.networks import NETWORKS, training_steps
from ibnn.lab.bench.problems import forward_backward
from ibnn.lab.bench.settings import BenchSettings
from ibnn.lab.bench.timing import Times, interleave
from ibnn.lab.bench.verdict import judge

LAM = -0.1
# both sides of the threshold 0.1 of the default slope: the bound of a learnt lam, and about the
# largest that a free one was learnt to be
BELOW, ABOVE = 0.095, 0.28
Calls = dict[str, Callable[[], object]]


@dataclass(frozen=True)
class Cliff:
    """A layer, its input, and what it may cost at each std of its units."""

    name: str
    layer: str
    sizes: tuple[int, ...]
    input: tuple[int, ...]
    required: tuple[float, ...]
    aim: float
    stds: tuple[float, ...] = (0.3, 1.0)
    settings: dict[str, Any] = field(default_factory=dict)  # of the parent layer too
    options: dict[str, Any] = field(default_factory=dict)  # of the implicit one
    dtype: torch.dtype = torch.float32
    input_gradient: bool = True
    inference: bool = False
    lam: float = LAM
    pictures: bool = False  # discs on a blank ground in place of normal noise

    def allowed(self, std: float) -> float:
        return self.required[min(self.stds.index(std), len(self.required) - 1)]

    def calls(self, std: float) -> Calls:
        """The standard and the implicit layer, each with its ReLU, as calls to time."""
        generator = torch.Generator().manual_seed(0)
        draw = _pictures if self.pictures else torch.randn
        x = draw(self.input, generator=generator).to(self.dtype)
        parent = getattr(nn, self.layer)(*self.sizes, **self.settings)
        with torch.no_grad():
            for parameter in parent.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator))
            scale = std / parent.to(self.dtype)(x).std()
            for parameter in parent.parameters():
                parameter.mul_(scale)
        layer = getattr(ibnn, self.layer)(
            *self.sizes, **self.settings, lam=self.lam, on_failure="ignore", **self.options
        ).to(self.dtype)
        layer.load_state_dict(parent.state_dict(), strict=False)
        made = {"standard": nn.Sequential(parent, nn.ReLU()), "implicit": nn.Sequential(layer)}
        made["implicit"].append(nn.ReLU())
        if self.inference:
            return {name: _inference(module, x) for name, module in made.items()}
        g = torch.randn(parent(x).shape, generator=generator).to(self.dtype)
        x.requires_grad_(self.input_gradient)
        return {name: _both(module, x, g) for name, module in made.items()}


def _pictures(size: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Discs, brighter towards their middle, on a blank ground: many units of a map are equal, and
    many nearly."""
    line = torch.linspace(-1, 1, size[-1])
    distance = (line[:, None] ** 2 + line**2).sqrt()
    radius = 0.5 + 0.5 * torch.rand((*size[:2], 1, 1), generator=generator)
    return (radius - distance).clamp(min=0) * torch.rand(size, generator=generator)


def _maps(size: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """What convolutions make of pictures, of std 1."""
    images = _pictures((size[0], 1, *size[2:]), generator)
    filters = torch.randn((size[1], 1, 5, 5), generator=generator)
    maps = nn.functional.conv2d(images, filters, padding=2)
    return maps / maps.std()


@dataclass(frozen=True)
class Above(Cliff):
    """The implicit bias alone, above the threshold against below it."""

    def calls(self, std: float) -> Calls:
        generator = torch.Generator().manual_seed(0)
        draw = _maps if self.pictures else torch.randn
        y = std * draw(self.input, generator=generator).to(self.dtype)
        g = torch.randn(y.shape, generator=generator).to(self.dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ibnn.ThresholdWarning)
            made = {
                name: ibnn.ImplicitBias(lam, bounded=False, on_failure="ignore", **self.options)
                for name, lam in (("standard", BELOW), ("implicit", self.lam))
            }
        y.requires_grad_()
        return {name: _both(module.to(self.dtype), y, g) for name, module in made.items()}


def _above(*shape: int, units: tuple[int, ...] = (-1,), **more: Any) -> Above:
    return Above(
        f"above the threshold against below it, {'x'.join(map(str, shape))}",
        "ImplicitBias",
        (),
        shape,
        required=(10,),
        aim=5,
        stds=(0.1, 1.0),
        options={"coupling": ibnn.Uniform(units)},
        **{"lam": ABOVE, **more},
    )


def _linear(units: int, inputs: int = 784, rows: int = 128, **more: Any) -> Cliff:
    name = f"Linear {inputs} -> {units}, {rows} rows"
    return Cliff(name, "Linear", (inputs, units), (rows, inputs), **more)


def _conv(name: str, channels: int, side: int, batch: int, kernel: int = 3, **more: Any) -> Cliff:
    return Cliff(
        name,
        "Conv2d",
        (channels, channels, kernel),
        (batch, channels, side, side),
        settings={"padding": kernel // 2},
        input_gradient=channels > 3,
        **more,
    )


def _dense() -> ibnn.Dense:
    weight = torch.rand((256, 256), generator=torch.Generator().manual_seed(0))
    return ibnn.Dense(weight * 2 / 256)


def cliffs() -> Iterator[Cliff]:
    for units in (3, 10):
        yield _linear(units, required=(3,), aim=2)
    for units in (16, 32, 48):
        yield _linear(units, required=(4,), aim=2)
    for units in (64, 128, 256):
        yield _linear(units, required=(3,), aim=2)
    yield _linear(256, 256, 2048, required=(3, 5), aim=2)
    yield _linear(1024, 256, 2048, required=(2,), aim=1.5)
    for channels, required in ((8, 5), (16, 6), (32, 8), (64, 5), (128, 3)):
        name, options = f"Conv2d k3, {channels} coupled channels", {"coupling": "channels"}
        yield _conv(name, channels, 32, 16, required=(required,), aim=2, options=options)
    for channels, side, required in ((256, 14, 1.8), (512, 7, 1.8), (256, 4, 3)):
        name = f"Conv2d k3, {channels} channels {side}x{side}"
        yield _conv(name, channels, side, 8, required=(required,), aim=1.3)
    for window, required, aim in ((3, 6, 3), (5, 10, 5), (9, 25, 10), (15, 30, 12)):
        options = {"coupling": ibnn.Window((window, window))}
        name = f"Window {window}x{window}, 16x3x32x32"
        yield _conv(name, 3, 32, 16, 5, required=(required,), aim=aim, options=options)
    dense = _linear(256, 256, 16, required=(12,), aim=6, options={"coupling": _dense()})
    yield replace(dense, name=f"Dense, {dense.name}")
    for sigma in ("hardtanh", "arctan", "erf"):
        name, options = f"{sigma}, 32x3x32x32", {"sigma": sigma}
        yield _conv(name, 3, 32, 32, 5, required=(6,), aim=3, options=options, stds=(0.1, 1.0))
    learnt = {"stds": (0.1, 1.0), "required": (4,), "aim": 2, "options": {"learn_slope": True}}
    yield _conv("slope learnt, 32x3x32x32", 3, 32, 32, 5, **learnt)
    linear = _linear(128, **learnt)
    yield replace(linear, name=f"slope learnt, {linear.name}")
    wide = {"stds": (0.1, 1.0), "required": (6, 12), "dtype": torch.float64}
    yield _conv("float64, 16x3x32x32", 3, 32, 16, 5, aim=3, **wide)
    yield _conv(
        "inference, 1x3x32x32", 3, 32, 1, 5, required=(2,), aim=1.5, stds=(0.3,), inference=True
    )
    # what a network meets that has learnt: lam at its bound, images with a background
    yield Cliff(
        "Pictures, lam 0.095, 128x1x28x28",
        "Conv2d",
        (1, 3, 5),
        (128, 1, 28, 28),
        settings={"padding": 2},
        input_gradient=False,
        required=(6,),
        aim=3,
        lam=0.095,
        pictures=True,
    )
    for channels in (3, 8, 16):
        name = f"Conv2d k5, 128x{channels}x32x32"
        yield _conv(name, channels, 32, 128, 5, required=(2.5,), aim=1.5, stds=(0.1, 1.0))
    yield _above(4096, 32)
    yield _above(128, 3, 28, 28, units=(-2, -1))
    # networks of Fashion-MNIST that are free to pass the threshold learn 0.14 to 0.17
    pictures = _above(128, 3, 28, 28, units=(-2, -1), lam=0.16, pictures=True)
    yield replace(pictures, name=f"Pictures, lam 0.16, {pictures.name}")


def measure(settings: BenchSettings) -> list[dict[str, Any]]:
    """One row per case and std: the ratio of one thread's processor time is what is judged."""
    one, every = (_measured_with(settings, threads) for threads in (1, None))
    rows = []
    for row, wall in zip(one, every, strict=True):
        state = judge(row["ratio"], row["required"], row["aim"])
        rows.append({**row, "ratio_wall": wall["ratio"], "ms_wall": wall["ms"], "state": state})
    return rows


def _measured_with(settings: BenchSettings, threads: int | None) -> list[dict[str, Any]]:
    environment = dict(os.environ)
    if threads is not None:
        environment["OMP_NUM_THREADS"] = str(threads)
    if settings.engine != "both":
        environment["IBNN_ENGINE"] = settings.engine
    clock = "wall" if threads is None else "processor"
    command = [sys.executable, "-m", __name__, clock, "quick" if settings.quick else "full"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the cases did not run: {done.stderr.strip().splitlines()[-1:]}")
    return json.loads(done.stdout.splitlines()[-1])


def rows_of(clock: Callable[[], float], quick: bool) -> list[dict[str, Any]]:
    """Every case, timed in this process."""
    rounds, seconds = ((3, 10), 0.2) if quick else ((5, 40), 1.0)
    # a step allocates much and its time is noisy: of five rounds the ratios differed by a fifth
    steps, step_seconds = ((2, 5), 0.2) if quick else ((5, 25), 4.0)
    rows = []
    for cliff in cliffs():
        for std in cliff.stds[-1:] if quick else cliff.stds:
            times = interleave(cliff.calls(std), rounds, seconds, clock)
            limits = {"required": cliff.allowed(std), "aim": cliff.aim}
            rows.append({"case": cliff.name, "std": std, **limits, **_ratios(times)})
    for network in NETWORKS:
        calls = training_steps(network)
        if calls is not None:
            times = interleave(calls, steps, step_seconds, clock)
            limits = {"required": network.required, "aim": network.aim}
            rows.append({"case": network.name, "std": None, **limits, **_ratios(times)})
    return rows


def _ratios(times: dict[str, Times]) -> dict[str, float]:
    """The least of each as a ratio, and the quartiles of the rounds' own ratios."""
    implicit, standard = times["implicit"].seconds, times["standard"].seconds
    each = [a / b for a, b in zip(implicit, standard, strict=True)]
    low, _, high = statistics.quantiles(each, n=4, method="inclusive")
    return {
        "ratio": min(implicit) / min(standard),
        "low": low,
        "high": high,
        "ms": 1e3 * min(implicit),
        "standard_ms": 1e3 * min(standard),
    }


def _both(module: nn.Module, x: Tensor, g: Tensor) -> Callable[[], object]:
    return lambda: forward_backward(module, x, g)


def _inference(module: nn.Module, x: Tensor) -> Callable[[], object]:
    def call() -> None:
        with torch.inference_mode():
            module(x)

    return call


if __name__ == "__main__":
    chosen = {"wall": time.perf_counter, "processor": time.process_time}[sys.argv[1]]
    print(json.dumps(rows_of(chosen, quick=sys.argv[2] == "quick")))
