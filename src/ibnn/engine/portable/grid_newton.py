"""Newton on the grid with steps taken on trust: a bound says beforehand what they leave.

Few ops and fewer looks: all rows go on until all are done. Rows that are not after a few steps are
left to `unit_newton`, whose steps are halved when too long.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from ibnn.engine.portable.device import on_host
from ibnn.engine.portable.grid import locate
from ibnn.engine.portable.grid_field import GridField
from ibnn.engine.portable.layout import Layout
from ibnn.engine.portable.normal_start import normal_start
from ibnn.engine.portable.taps import IDENTITY, Taps

MOST_STEPS = 7
# at least the largest second derivative of tanh (0.77), erf (0.76) and arctan (1.02)
CURVATURE = 1.03
# of the splines for the step from a guess, which the next step corrects
FIRST_ORDER = 4
# a direction from a grid is right to this fraction
GRID_ERROR = 1e-4


class Shift(NamedTuple):
    """z - y as a smooth function of y, one of each row."""

    coefficients: Tensor
    layout: Layout

    def at(self, y: Tensor, middle: Tensor) -> Tensor:
        grid = self.layout
        places = locate(y, grid.origin(middle), grid.spacing, grid.nodes, grid.order)
        return places.gather(self.coefficients)


def grid_newton(
    y: Tensor,
    strength: Tensor,
    atol: Tensor,
    layout: Layout,
    weights: Tensor | None = None,
    shift: Shift | None = None,
) -> tuple[Tensor, Tensor, int, Tensor, bool]:
    """z, a bound of its largest residual, the steps taken, which rows are within `atol`, and
    whether all of them are.

    `strength` (below 1) and `atol` are (rows, 1). Units count 1/D each, or as `weights` says.
    `shift` is what `solve_on_nodes` found, if it was asked.
    """
    low, high = y.amin(1, keepdim=True), y.amax(1, keepdim=True)
    middle = low + (high - low) / 2
    # B is within +-1, and for c < 0 the solution stays within the range of y
    spill = strength.clamp(min=0)
    low, high = low - spill, high + spill
    curved, least = CURVATURE * strength.abs(), (1 - strength).clamp(max=1)
    goal = least * atol
    looks = on_host(y)
    # next to the threshold z(y) is too steep for nodes, and errors grow: only whole steps are taken
    smooth = looks and (layout.wide or not layout.near_threshold)
    if shift is not None:
        z = _inside(shift.at(y, middle).add_(y), low, high)
    else:
        z, normal = normal_start(y, strength, weights)
        z = _inside(z, low, high)
        if smooth:
            field = GridField(z, middle, replace(layout, order=FIRST_ORDER), weights=weights)
            z = _inside(z.sub_(field.step_between(normal, strength)), low, high)
    rest, done, all_done, step = atol, atol > 0, False, 0
    for step in range(1, MOST_STEPS + 1):
        field = GridField(z, middle, layout, rough=True, weights=weights)
        residual = (z - y).addcmul_(strength, field.bias)
        now = residual.abs().amax(1, keepdim=True)
        tolerance: Tensor | float = 1e-2
        if looks:  # elsewhere products are counted; no better than the curvature of B allows
            tolerance = (0.1 * goal / now).maximum(0.03 * now).clamp_(1e-5, 1e-2)
        if smooth:
            # a step v of each unit by itself leaves c P_1(z, v), and c P_1(z, 1) is known
            steepest = field.slope.amax(1, keepdim=True)
            v = now / (1 - spill * steepest).maximum(least)
            rest = (v * (2 * curved * v + strength.abs() * steepest)).add_(GRID_ERROR * now)
            done = rest <= goal
            all_done = bool(done.all())
            if all_done:
                z = _inside(z.sub_(residual.div_(field.kept(strength))), low, high)
                break
        change, left = field.solve_and_judge(residual, strength, tolerance)
        z = _inside(z.sub_(change), low, high)
        change.square_()
        bend = change.mean(1, keepdim=True) + change.amax(1, keepdim=True)
        # what B leaves beyond its tangent after a step v: 1/2 mean_k |s_2| (v_k - v_i)^2 at most
        rest = (curved * bend).add_((left[:, None] + GRID_ERROR) * now)
        done = rest <= goal
        if looks or step > 1:
            all_done = bool(done.all())
            if all_done:
                break
    return z, rest.squeeze(1), step, done.squeeze(1), all_done


def begins_on_nodes(layout: Layout, y: Tensor) -> bool:
    """Whether nodes are so much fewer than units that the solution on them is a cheap start."""
    return on_host(y) and not (layout.wide or layout.near_threshold)


def solve_on_nodes(
    blocks: Iterable[Tensor], strength: Tensor, atol: Tensor, layout: Layout
) -> list[Shift]:
    """Rows solved on nodes that stand for their units, those of all blocks at once."""
    parts = [_nodes_for(y, layout) for y in blocks]
    nodes, weights = map(torch.cat, zip(*parts, strict=True))
    found = grid_newton(nodes, strength, atol, layout, weights)[0]
    shift = Taps(layout, nodes).apply(found.sub_(nodes), IDENTITY, 1)
    return [Shift(part, layout) for part in shift.split([len(part) for part, _ in parts])]


def _nodes_for(y: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
    """The places and weights of nodes that stand for the units."""
    low, high = y.amin(1, keepdim=True), y.amax(1, keepdim=True)
    field = GridField(y, low + (high - low) / 2, layout)
    return field.nodes, field.quadrature


def _inside(z: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """z itself, clamped; by two ops, which take a quarter of the time of one."""
    return torch.minimum(torch.maximum(z, low, out=z), high, out=z)
