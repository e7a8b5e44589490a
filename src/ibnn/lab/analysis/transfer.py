"""Section: what is left of a trained standard network when its neurons become implicit."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from ibnn.conversion.recalibrate import recalibrate_batch_norms
from ibnn.lab import data
from ibnn.lab.analysis.section import Progress, Section, Subject
from ibnn.lab.analysis.transfer_figures import draw_accuracy, draw_margins
from ibnn.lab.analysis.transfer_margin import Task, margins, train, two_classes
from ibnn.lab.results import Picture, Table
from ibnn.lab.stats import percent
from ibnn.lab.training import validate
from ibnn.nn.layer import BiasMixin

LAMS = (-0.6, -0.4, -0.3, -0.2, -0.1, -0.05, 0.0, 0.05, 0.095)
QUICK_LAMS = (-0.5, -0.1, 0.0, 0.05)
DIGITS = (3, 8)
UNITS = 32
TESTED = 500


def section(subject: Subject, progress: Progress) -> Section | None:
    """Margins in the paper's setting, and the accuracy of the subject's own weights over lam."""
    lams = QUICK_LAMS if subject.quick else LAMS
    tasks = _tasks(subject)
    total = len(tasks) * (1 + len(lams)) + len(lams)
    done = 0
    found: dict[str, list[dict[str, Any]]] = {}
    for task in tasks:
        progress(done, total, f"training on {task.name}")
        classifier = train(task, UNITS, subject.seed)
        done += 1
        rows = []
        for lam in lams:
            progress(done, total, f"margins on {task.name}")
            rows.append(margins(task, classifier, lam))
            done += 1
        found[_named(task)] = rows
    accuracies = []
    for lam in lams:
        progress(done, total, "accuracy over lam")
        accuracies.append(_accuracy(subject, lam))
        done += 1
    standard = _validated(subject.twin, subject)
    progress(total, total, "transfer")
    return Section(
        "transfer",
        "Transfer: a trained standard network becomes implicit",
        _words(found, accuracies, standard),
        [
            Picture(
                "transfer-margins",
                draw_margins(found),
                "Two classes that a standard network with one hidden layer separates with margin "
                "M; the same weights with implicit neurons, under the head it had and under the "
                "best one for the new features. Bounds are for the old head; a refitted one is at "
                "least as good.",
            ),
            Picture(
                "transfer-accuracy",
                draw_accuracy(accuracies, standard),
                "The weights of the analysed network with other lam and nothing trained: outside "
                "the theorem (several layers, batch norm, classes that may overlap).",
            ),
        ],
        [_table(found)],
        [*(row for rows in found.values() for row in rows), *accuracies],
    )


def _tasks(subject: Subject) -> list[Task]:
    plane = data.draw("moons", 150 if subject.quick else 300, 2, seed=subject.seed)
    return [two_classes(plane, 0, 1), two_classes(data.load("digits"), *DIGITS)]


def _named(task: Task) -> str:
    return "Two moons" if task.name == "moons" else f"Digits, {DIGITS[0]} against {DIGITS[1]}"


def _accuracy(subject: Subject, lam: float) -> dict[str, Any]:
    network = _with_lam(subject.network, lam)
    row: dict[str, Any] = {"kind": "accuracy", "lam": lam, "accuracy": _validated(network, subject)}
    if any(isinstance(module, _BatchNorm) for module in network.modules()):
        recalibrate_batch_norms(network, subject.x.split(64))
        row["accuracy_recalibrated"] = _validated(network, subject)
    return row


@torch.no_grad()
def _with_lam(network: nn.Module, lam: float) -> nn.Module:
    """A copy that differs in nothing but lam, the same in every implicit layer."""
    made = copy.deepcopy(network)
    for module in made.modules():
        if isinstance(module, BiasMixin):
            module.lam.fill_(lam)
    return made


def _validated(network: nn.Module, subject: Subject) -> float:
    dataset = subject.dataset
    return validate(network, dataset.x_test[:TESTED], dataset.y_test[:TESTED]).accuracy


def _table(found: dict[str, list[dict[str, Any]]]) -> Table:
    keys = ("margin_old_head", "margin_refitted", "bound_sharper", "bound_paper")
    cells = [
        (name, f"{row['lam']:g}", *(f"{row[key]:.3f}" for key in keys))
        for name, rows in found.items()
        for row in rows
    ]
    columns = ("task", "lam", "old head", "refitted head", "sharper bound", "paper's bound")
    return Table("Margins after conversion", columns, cells)


def _words(
    found: dict[str, list[dict[str, Any]]], accuracies: Sequence[dict[str, Any]], standard: float
) -> list[str]:
    text = []
    for name, rows in found.items():
        before = rows[0]["margin_before"]
        if before <= 0:
            text.append(f"{name}: the network did not separate the classes; the bound is empty.")
            continue
        loss = max(
            (before - row["margin_old_head"]) / (before - row["bound_paper"])
            for row in rows
            if row["lam"]
        )
        kept = [row["lam"] for row in rows if row["lam"] < 0 and row["margin_old_head"] > 0]
        last = min(kept, default=0.0)
        bound = max(abs(row["lam"]) for row in rows if row["bound_paper"] > 0)
        promise = f"up to |lam| = {bound:g}" if bound else "at none but 0"
        text.append(
            f"{name}: M = {before:.3f} before. The old head lost at most {percent(max(loss, 0))} "
            f"of what the paper's bound allows; of the lam tried it still separates at {last:g}, "
            f"and the bound promises that {promise}."
        )
    best = max(accuracies, key=lambda row: row["accuracy"])
    text.append(
        f"The analysed weights reach {percent(standard)} without implicit bias and "
        f"{percent(best['accuracy'])} at the best of these lam ({best['lam']:g}), with nothing "
        "trained."
    )
    return text
