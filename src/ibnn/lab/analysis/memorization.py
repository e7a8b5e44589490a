"""Memorization: the curvature of the loss around each example, both neurons."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn

import ibnn
from ibnn.lab.analysis import memorization_figures as figures
from ibnn.lab.analysis import memorization_words as words
from ibnn.lab.analysis.assumptions import check, same_answer
from ibnn.lab.analysis.curvature import curvature
from ibnn.lab.analysis.expressivity import lam_of
from ibnn.lab.analysis.law import STRENGTHS, Ratio, ideal, ratios
from ibnn.lab.analysis.noise import Memory, memory
from ibnn.lab.analysis.one_hidden import OneHidden, train, two_classes
from ibnn.lab.analysis.preactivations import layers_of
from ibnn.lab.analysis.section import Progress, Section, Subject
from ibnn.lab.results import Picture
from ibnn.lab.training.objective import loss_of, predict
from ibnn.lab.training.seeds import generator

SHOWN = 12  # most memorised images of each network


@dataclass(frozen=True)
class Curvatures:
    """Of every example looked at, with both neurons."""

    standard: Tensor
    implicit: Tensor

    def ratio(self) -> Tensor:
        """Implicit over standard, where float32 can tell them from zero."""
        tiny = torch.finfo(self.standard.dtype).tiny
        seen = (self.standard > tiny) & (self.implicit > tiny)
        return self.implicit[seen] / self.standard[seen]

    def rank_correlation(self) -> float:
        """Spearman's: 1 if both networks order the examples alike."""
        ranks = torch.stack(
            [v.argsort().argsort().double() for v in (self.standard, self.implicit)]
        )
        return float(torch.corrcoef(ranks)[0, 1])


def section(subject: Subject, progress: Progress) -> Section | None:
    """The paper's law of curvature where it should hold, where it is used, and on this network."""
    steps = 5
    progress(0, steps, "curvature of every example")
    seen = _curvatures(subject)
    progress(1, steps, "assumptions of the law")
    layers = layers_of(subject.network, subject.twin, subject.x[:64])
    held = check(layers[0], generator(subject.seed, "filters"))
    held.append(same_answer(*_answers(subject)))
    lam, slope = lam_of(layers), float(layers[0].slope.max())
    progress(2, steps, "the law in its own setting")
    law = _law(subject, slope)
    progress(3, steps, "wrong labels learnt by heart")
    shown = (150, 120) if subject.quick else (200, 150)  # examples, steps
    learnt = _memories(subject, lam, slope, *shown)
    progress(4, steps, "figures")
    pictures = [
        Picture(
            "memorization-curvature",
            figures.draw_law(law, seen.standard, seen.implicit),
            "Left: curvature with implicit neurons over curvature with standard ones, same "
            "weights, in the paper's setting; lines are laws, dots medians over examples. Right: "
            "curvature of the loss around every example looked at, this network and its twin.",
        )
    ]
    if subject.x.ndim == 4:
        pictures.append(_ranking(subject, seen))
    progress(steps, steps, "")
    return Section(
        "memorization",
        "Memorization",
        [
            *words.about_law(law),
            *words.about_network(seen, held, lam * slope),
            *words.about_memories(learnt, *shown),
        ],
        pictures,
        [
            words.table_of_laws(law),
            words.table_of_assumptions(held),
            words.table_of_memories(learnt),
        ],
        [
            {"what": "example", "index": i, "standard": float(a), "implicit": float(b)}
            for i, (a, b) in enumerate(zip(seen.standard, seen.implicit, strict=True))
        ]
        + [{"what": "law", **asdict(ratio)} for ratio in law]
        + [{"what": "wrong labels", **asdict(m)} for m in learnt],
    )


def _curvatures(subject: Subject) -> Curvatures:
    found = []
    for network in (subject.twin, subject.network):
        draw = generator(subject.seed, "signs")  # the same directions for both
        loss = _loss(network)
        count = 5 if subject.quick else 10
        found.append(curvature(loss, subject.x, subject.y, draw, directions=count))
    return Curvatures(*found)


def _loss(network: nn.Module):
    return lambda x, y: loss_of(network(x), y, reduction="none")


@torch.no_grad()
def _answers(subject: Subject) -> tuple[Tensor, Tensor]:
    """Probability of the right label, standard and implicit."""

    def right(network: nn.Module) -> Tensor:
        return torch.exp(-loss_of(network(subject.x[:256]), subject.y[:256], reduction="none"))

    return right(subject.twin), right(subject.network)


def _law(subject: Subject, slope: float) -> list[Ratio]:
    """On a network for which every assumption holds, and on a trained one."""
    examples, training = (100, 100) if subject.quick else (300, 400)
    x, y = two_classes(subject.dataset, examples, subject.seed)
    inputs = x[0].numel()
    made = ideal(inputs, slope, subject.seed)
    standard = OneHidden(inputs, 64, seed=subject.seed)
    train(standard, x, y, training)
    trained = ibnn.convert(standard, 0.0, slope=slope, sigma="hardtanh")
    return [
        *ratios("made to fit", made, x, y, STRENGTHS, subject.seed),
        *ratios("trained", trained, x, y, STRENGTHS, subject.seed),
    ]


def _memories(
    subject: Subject, lam: float, slope: float, examples: int, steps: int
) -> list[Memory]:
    return [
        memory(subject.dataset, chosen, slope, subject.seed + k, examples, steps)
        for chosen in (None, lam)
        for k in range(1 if subject.quick else 5)
    ]


def _ranking(subject: Subject, seen: Curvatures) -> Picture:
    rows = []
    for name, network, values in (
        ("standard", subject.twin, seen.standard),
        ("implicit", subject.network, seen.implicit),
    ):
        order = values.argsort(descending=True)
        ends = (("highest", order[:SHOWN]), ("lowest", order[-SHOWN:].flip(0)))
        for which, chosen in ends:
            with torch.no_grad():
                said = predict(network(subject.x[chosen]))
            rows.append((name, which, subject.x[chosen], subject.y[chosen], said))
    return Picture(
        "memorization-images",
        figures.draw_ranking(rows),
        f"The training images around which the loss is most and least curved, of the "
        f"{len(subject.y)} looked at. Below each: its label, and in orange what the network says "
        "if that differs.",
    )
