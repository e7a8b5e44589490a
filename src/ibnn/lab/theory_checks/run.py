"""The chosen checks, one after the other, on one network."""

import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

import ibnn
from ibnn.lab.data import Dataset, as_float
from ibnn.lab.data.dataset import random_state
from ibnn.lab.registry import expected
from ibnn.lab.theory_checks import registry
from ibnn.lab.theory_checks.check import Context, DoesNotApply, Progress, Section


class TheoryCheckError(Exception):
    """Checks or settings that do not exist; one line."""


@dataclass(frozen=True)
class CheckResults:
    """What came out: sections, and why others are missing."""

    sections: Sequence[Section]
    skipped: dict[str, str]  # does not apply to this network or data
    failed: dict[str, str]  # a defect: its traceback
    seconds: dict[str, float]


def context_for(
    network: nn.Module, dataset: Dataset, *, images: int = 128, seed: int = 0, quick: bool = False
) -> Context:
    """The network in `eval` mode, its weights without implicit bias, and a random sample of
    `images` training examples, on the network's device."""
    if images < 2:
        raise TheoryCheckError(f"images is {images}, expected at least 2")
    index = torch.from_numpy(
        random_state("analysis", seed).permutation(len(dataset.x_train))[:images]
    )
    first = next(network.parameters())
    x = as_float(dataset.x_train[index], first.dtype).to(first.device)
    y = dataset.y_train[index].to(first.device)
    network = network.eval().requires_grad_(False)
    return Context(network, ibnn.standard(network), dataset, x, y, seed, quick)


def chosen_checks(names: Sequence[str] | None) -> tuple[str, ...]:
    """The checks meant, in the order of the report; None is all."""
    known = registry.names()
    for name in names or ():
        if name not in known:
            raise TheoryCheckError(f"section {name!r} is not known, {expected(name, known)}")
    return tuple(name for name in known if names is None or name in names)


def run_checks(
    context: Context,
    names: Sequence[str] | None = None,
    on_progress: Callable[[str], Progress] = lambda name: lambda done, total, what: None,
) -> CheckResults:
    """Run the checks of these names (None: all); one that fails leaves the others alone."""
    sections: list[Section] = []
    skipped: dict[str, str] = {}
    failed: dict[str, str] = {}
    seconds: dict[str, float] = {}
    for name in chosen_checks(names):
        begun = time.perf_counter()
        try:
            sections.append(registry.load(name)(context, on_progress(name)))
        except DoesNotApply as reason:
            skipped[name] = str(reason)
        except Exception:
            failed[name] = traceback.format_exc()
        seconds[name] = time.perf_counter() - begun
    return CheckResults(sections, skipped, failed, seconds)
