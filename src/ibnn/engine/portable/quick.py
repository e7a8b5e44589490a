"""Newton on the grid with steps taken on trust: a bound says beforehand what they leave.

Few ops and fewer looks: all rows go on until all are done. Rows that are not after a few steps are
left to `unit_newton`, whose steps are halved when too long.
"""

from torch import Tensor

from ibnn.engine.portable.device import on_host
from ibnn.engine.portable.grid_field import GridField
from ibnn.engine.portable.layout import Layout
from ibnn.engine.portable.normal_start import normal_start

MOST_STEPS = 7
# at least the largest second derivative of tanh (0.77), erf (0.76) and arctan (1.02)
CURVATURE = 1.03
# a direction from a grid is right to this fraction
GRID_ERROR = 1e-4


def quick_newton(
    y: Tensor, strength: Tensor, atol: Tensor, layout: Layout, weights: Tensor | None = None
) -> tuple[Tensor, Tensor, int, Tensor, bool]:
    """z, a bound of its largest residual, the steps taken, which rows are within `atol`, and
    whether all of them are.

    `strength` (below 1) and `atol` are (rows, 1). Units count 1/D each, or as `weights` says.
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
    if smooth and weights is None and not layout.wide:
        z = _start_on_nodes(y, strength, atol, middle, layout).clamp_(low, high)
    else:
        z, normal = normal_start(y, strength, weights)
        z.clamp_(low, high)
        if smooth:
            field = GridField(z, middle, layout, weights=weights)
            z.sub_(field.step_between(normal, strength)).clamp_(low, high)
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
                z.sub_(residual.div_(field.kept(strength))).clamp_(low, high)
                break
        change, left = field.solve(residual, strength, tolerance)
        z = z.sub_(change).clamp_(low, high)
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


def _start_on_nodes(
    y: Tensor, strength: Tensor, atol: Tensor, middle: Tensor, layout: Layout
) -> Tensor:
    """z is a smooth function of y: solved on nodes that stand for the units, and read off there."""
    field = GridField(y, middle, layout)
    nodes = field.nodes
    found = quick_newton(nodes, strength, atol, layout, field.quadrature)[0]
    return field.interpolate(found.sub_(nodes)).add_(y)
