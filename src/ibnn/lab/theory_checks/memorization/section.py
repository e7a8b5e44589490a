"""Section: the curvature of the loss around each example, and memorized wrong labels."""

from dataclasses import asdict

import torch
from torch import Tensor, nn

import ibnn
from ibnn.lab.results import Picture
from ibnn.lab.theory_checks.check import Context, Progress, Section
from ibnn.lab.theory_checks.layers import capture, representative_lam
from ibnn.lab.theory_checks.memorization import claims, figures
from ibnn.lab.theory_checks.memorization.assumptions import check, same_answer
from ibnn.lab.theory_checks.memorization.curvature import Curvatures, curvature
from ibnn.lab.theory_checks.memorization.label_noise import NoisyTraining, train_on_wrong_labels
from ibnn.lab.theory_checks.memorization.scaling import (
    LAM_SLOPES,
    CurvatureRatio,
    curvature_ratios,
    ideal_network,
)
from ibnn.lab.theory_checks.one_hidden import OneHidden, binary_task, train
from ibnn.lab.training.objective import loss_of, predict
from ibnn.lab.training.seeds import generator

SHOWN = 12  # images of highest and of lowest curvature, of each network


def section(context: Context, progress: Progress) -> Section:
    """The paper's scaling of curvature where it should hold, where it is used, and on this
    network."""
    steps = 5
    progress(0, steps, "curvature of every example")
    seen = _curvatures(context)
    progress(1, steps, "assumptions of the scaling")
    states = capture(context.network, context.standard, context.x[:64])
    held = check(states[0], generator(context.seed, "filters"))
    held.append(same_answer(*_answers(context)))
    lam, slope = representative_lam(states), float(states[0].slope.max())
    progress(2, steps, "the scaling in its own setting")
    ratios = _ratios(context, slope)
    progress(3, steps, "memorized wrong labels")
    examples, training = (150, 120) if context.quick else (200, 150)
    noisy = _noisy(context, lam, slope, examples, training)
    progress(4, steps, "figures")
    pictures = [
        Picture(
            "memorization-curvature",
            figures.draw_scaling(ratios, seen),
            "Left: curvature with implicit neurons over curvature with standard ones, same "
            "weights, in the paper's setting; lines are formulas, dots medians over examples. "
            "Right: curvature of the loss around every example looked at, with and without the "
            "implicit bias.",
        )
    ]
    if context.x.ndim == 4:
        pictures.append(_ranking(context, seen))
    progress(steps, steps, "done")
    return Section(
        name="memorization",
        title="Memorization: curvature of the loss, wrong labels",
        claims=claims.claims(ratios, seen, lam * slope, noisy),
        notes=claims.notes(seen, held, lam * slope, noisy, examples, training),
        pictures=pictures,
        tables=[
            claims.table_of_scaling(ratios),
            claims.table_of_assumptions(held),
            claims.table_of_noise(noisy),
        ],
        rows=[
            *(
                {"what": "example", "index": i, "standard": float(a), "implicit": float(b)}
                for i, (a, b) in enumerate(zip(seen.standard, seen.implicit, strict=True))
            ),
            *({"what": "curvature ratio", **asdict(ratio)} for ratio in ratios),
            *({"what": "wrong labels", **asdict(one)} for one in noisy),
        ],
    )


def _curvatures(context: Context) -> Curvatures:
    found = []
    for network in (context.standard, context.network):
        draw = generator(context.seed, "signs")  # the same directions for both
        count = 5 if context.quick else 10
        found.append(curvature(_loss(network), context.x, context.y, draw, directions=count).cpu())
    return Curvatures(*found)


def _loss(network: nn.Module):
    return lambda x, y: loss_of(network(x), y, reduction="none")


@torch.no_grad()
def _answers(context: Context) -> tuple[Tensor, Tensor]:
    """Probability of the right label, standard and implicit."""
    x, y = context.x[:256], context.y[:256]
    return torch.exp(-_loss(context.standard)(x, y)), torch.exp(-_loss(context.network)(x, y))


def _ratios(context: Context, slope: float) -> list[CurvatureRatio]:
    """On a network for which every assumption holds, and on a trained one."""
    examples, training = (100, 100) if context.quick else (300, 400)
    x, y = binary_task(context.dataset, examples, context.seed)
    inputs = x[0].numel()
    standard = OneHidden(inputs, 64, seed=context.seed)
    train(standard, x, y, training)
    networks = {
        "ideal": ideal_network(inputs, slope, context.seed),
        "trained": ibnn.convert(standard, 0.0, slope=slope, sigma="hardtanh"),
    }
    return [
        ratio
        for name, network in networks.items()
        for ratio in curvature_ratios(name, network, x, y, LAM_SLOPES, context.seed)
    ]


def _noisy(
    context: Context, lam: float, slope: float, examples: int, steps: int
) -> list[NoisyTraining]:
    return [
        train_on_wrong_labels(context.dataset, one, slope, context.seed + k, examples, steps)
        for one in (None, lam)
        for k in range(1 if context.quick else 5)
    ]


def _ranking(context: Context, seen: Curvatures) -> Picture:
    rows = []
    for name, network, values in (
        ("standard", context.standard, seen.standard),
        ("implicit", context.network, seen.implicit),
    ):
        order = values.argsort(descending=True)
        ends = (("highest", order[:SHOWN]), ("lowest", order[-SHOWN:].flip(0)))
        for which, chosen in ends:
            with torch.no_grad():
                said = predict(network(context.x[chosen]))
            rows.append((name, which, context.x[chosen], context.y[chosen], said))
    return Picture(
        "memorization-images",
        figures.draw_ranking(rows),
        f"The training images around which the loss is most and least curved, of the "
        f"{len(context.y)} looked at. Below each: its label, and in orange what the network says "
        "if that differs.",
    )
