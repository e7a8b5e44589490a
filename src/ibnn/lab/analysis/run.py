"""Every section asked for, one after the other, on one network."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

import ibnn
from ibnn.lab.analysis.registry import SECTIONS, load
from ibnn.lab.analysis.section import DoesNotApply, Progress, Section, Subject
from ibnn.lab.data import Dataset
from ibnn.lab.data.dataset import random_state


class AnalysisError(Exception):
    """An analysis asked for in a way that does not exist; one line."""


@dataclass(frozen=True)
class Analysis:
    """What came out: sections, and why others are missing."""

    sections: Sequence[Section]
    skipped: dict[str, str]  # does not apply to this network or data
    failed: dict[str, str]  # a defect: its traceback
    seconds: dict[str, float]


def subject_of(
    network: nn.Module, dataset: Dataset, *, images: int, seed: int, quick: bool
) -> Subject:
    """The network in `eval` mode, its twin, and a random sample of the training data."""
    if images < 2:
        raise AnalysisError(f"images is {images}, expected at least 2")
    index = torch.from_numpy(
        random_state("analysis", seed).permutation(len(dataset.x_train))[:images]
    )
    dtype = next(network.parameters()).dtype
    x = dataset.x_train[index].to(dtype)
    x = x / 255 if dataset.x_train.dtype == torch.uint8 else x
    network = network.eval().requires_grad_(False)
    twin = ibnn.standard(network)
    return Subject(network, twin, dataset, x, dataset.y_train[index], seed, quick)


def chosen_sections(names: Sequence[str] | None) -> tuple[str, ...]:
    """The sections meant, in the order of the report; None is all."""
    for name in names or ():
        if name not in SECTIONS:
            known = ", ".join(SECTIONS)
            raise AnalysisError(f"section {name!r} is not known, expected some of {known}")
    return tuple(name for name in SECTIONS if names is None or name in names)


def analyse(
    subject: Subject,
    names: Sequence[str] | None = None,
    on_progress: Callable[[str], Progress] = lambda name: lambda done, total, what: None,
) -> Analysis:
    """Run the sections; one that fails does not take the others with it."""
    sections: list[Section] = []
    skipped: dict[str, str] = {}
    failed: dict[str, str] = {}
    seconds: dict[str, float] = {}
    for name in chosen_sections(names):
        begun = time.perf_counter()
        try:
            section = load(name)(subject, on_progress(name))
        except DoesNotApply as reason:
            skipped[name] = str(reason)
        except Exception:
            failed[name] = traceback.format_exc()
        else:
            if section is None:
                skipped[name] = "it does not apply to this network or data"
            else:
                sections.append(section)
        seconds[name] = time.perf_counter() - begun
    return Analysis(sections, skipped, failed, seconds)
