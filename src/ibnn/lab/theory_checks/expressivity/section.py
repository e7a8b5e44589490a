"""Section: the expansion in lam, universal approximation, and linear regions on a plane."""

from dataclasses import asdict

import torch

from ibnn.lab.results import Picture
from ibnn.lab.theory_checks.check import Context, Progress, Section
from ibnn.lab.theory_checks.expressivity import claims, figures
from ibnn.lab.theory_checks.expressivity.approximation import Approximation, errors
from ibnn.lab.theory_checks.expressivity.claims import Expansion, Maps
from ibnn.lab.theory_checks.expressivity.first_order import (
    emulate,
    expansion,
    exponent,
    remainders,
)
from ibnn.lab.theory_checks.expressivity.regions import Plane, look
from ibnn.lab.theory_checks.layers import LayerState, capture, double, representative_lam
from ibnn.lab.training.seeds import generator

RATIOS = (0.003, 0.01, 0.03, 0.1, 0.3, 0.9)  # |lam| as multiples of the threshold, both signs
FITTED = 4  # of them, the smallest, give the exponent: beyond, third order shows
MOST_WEIGHTS = 4_000_000  # of an emulating network that is really built: 32 MB of float64
EXAMPLES = 16


def section(context: Context, progress: Progress) -> Section:
    """What the paper says about expressivity, measured on this network and on the plane."""
    steps = ("expansion in λ", "approximation of a function", "linear regions")
    progress(0, len(steps), steps[0])
    network, standard = double(context.network), double(context.standard)
    states = capture(network, standard, context.x[:EXAMPLES].cpu().double())
    expansions = [_expand(state) for state in states]
    progress(1, len(steps), steps[1])
    lam, slope = representative_lam(states), float(states[0].slope.max())
    found = _approximations(context, lam, slope)
    progress(2, len(steps), steps[2])
    maps = _maps(context)
    progress(3, len(steps), "done")
    pictures = [
        Picture(
            "expressivity-expansion",
            figures.draw_expansion(expansions, found),
            "Left: what the first-order expansion leaves out, for every implicit layer at positive "
            "(filled) and negative (open) λ; the dashed line has slope 2. Right: error of the best "
            "output weights on random units, against width; lines are medians over draws.",
        )
    ]
    if maps:
        pictures.append(
            Picture(
                "expressivity-regions",
                figures.draw_slices(maps),
                "A plane through three training examples (dots). Thin lines: where a unit changes "
                "sign; thick line: the boundary of the first example's class.",
            )
        )
    return Section(
        name="expressivity",
        title="Expressivity: expansion in λ, approximation, regions",
        claims=claims.claims(expansions, found),
        notes=[claims.about_errors(found), *claims.about_maps(maps)],
        pictures=pictures,
        tables=[claims.table_of_layers(expansions), *claims.tables_of_maps(maps)],
        rows=[
            *claims.rows_of(expansions),
            *({"what": "approximation", **asdict(one)} for one in found),
        ],
    )


def _expand(state: LayerState) -> Expansion:
    lams = [ratio * state.threshold for ratio in RATIOS]
    above, below = remainders(state, lams), remainders(state, [-lam for lam in lams])
    powers = [exponent(lams[:FITTED], values[:FITTED]) for values in (above, below)]
    return Expansion(
        state.name, state.units, state.threshold, lams, above, below, powers, _emulation(state)
    )


def _emulation(state: LayerState) -> float | None:
    """The largest difference between the expansion and the standard neurons that compute it; None
    where these would be too many to build."""
    if state.units**2 * state.x[0].numel() > MOST_WEIGHTS:
        return None
    wanted = state.rows(expansion(state.y, state.lam, **state.arguments))
    wanted = wanted[:: len(wanted) // len(state.y)]  # the first row of each example
    with torch.no_grad():
        made = emulate(state, shared_pairs=True)(state.x.flatten(1))
    return float((made - wanted).abs().max())


def _approximations(context: Context, lam: float, slope: float) -> list[Approximation]:
    widths, seeds = ((8, 32, 128), 2) if context.quick else ((8, 16, 32, 64, 128, 256), 5)
    return list(errors([lam], widths, range(context.seed, context.seed + seeds), slope))


def _maps(context: Context) -> Maps | None:
    """Both networks on a plane through three examples, of different classes where there are."""
    chosen = _three(context)
    if chosen is None:
        return None
    label = int(context.y[chosen[0]])
    plane = Plane.through(context.x[chosen])
    sides = (81, 25) if context.quick else (161, 51)
    networks = {"standard": context.standard, "implicit": context.network}
    slices = {name: look(network, plane, label, *sides) for name, network in networks.items()}
    places = plane.coordinates(context.x[chosen]).cpu()
    return Maps(slices, label, places, context.y[chosen].tolist())


def _three(context: Context) -> list[int] | None:
    """Three examples that span a plane, of as many classes as there are."""
    order = torch.randperm(len(context.y), generator=generator(context.seed, "plane")).tolist()
    fresh: list[int] = []
    for index in order:
        if context.y[index] not in context.y[fresh]:
            fresh.append(index)
    chosen = [*fresh, *(index for index in order if index not in fresh)][:3]
    return chosen if len(chosen) == 3 else None
