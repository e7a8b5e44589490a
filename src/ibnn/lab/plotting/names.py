"""Names beside the points of a figure, none over another one."""

from collections.abc import Mapping, Sequence
from itertools import product

from matplotlib.axes import Axes
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

_DISTANCES = (6, 15, 26, 38)  # in points, from the nearest on
_DIRECTIONS = ((1, 0.5), (1, -0.9), (-1, 0.5), (-1, -0.9), (0, 1), (0, -1.2))
_RADIUS = 5  # of a point that no name may cover
_LINE_FROM = 10  # a name further away is joined to its point by a line


def name_points(
    axes: Axes, points: Mapping[str, tuple[float, float]], colors: Mapping[str, str]
) -> list[Annotation]:
    """Write every name where it covers least of other names and points, near its own point.

    Comes last: the limits and texts of the figure must be what they will be.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()  # before it, nothing has a place
    unit = figure.dpi / 72
    centers = [axes.transData.transform(point) for point in points.values()]
    taken = [Bbox.from_extents(*(c - _RADIUS * unit), *(c + _RADIUS * unit)) for c in centers]
    written = []
    for name, point in sorted(points.items(), key=lambda item: -item[1][1]):
        tried = [
            _write(axes, name, point, colors[name], distance, direction)
            for distance, direction in product(_DISTANCES, _DIRECTIONS)
        ]
        boxes = [text.get_window_extent() for text in tried]
        costs = [_covered(box, taken) + _outside(box, axes.bbox) for box in boxes]
        best = costs.index(min(costs))  # of equals the first, which is the nearest
        for number, text in enumerate(tried):
            if number != best:
                text.remove()
        taken.append(boxes[best])
        written.append(tried[best])
    return written


def _write(
    axes: Axes,
    name: str,
    point: tuple[float, float],
    color: str,
    distance: float,
    direction: tuple[float, float],
) -> Annotation:
    right, up = direction
    text = axes.annotate(
        name,
        point,
        xytext=(distance * right, distance * up),
        textcoords="offset points",
        ha={1: "left", 0: "center", -1: "right"}[int(right)],
        va="bottom" if up > 0 else "top",
        fontsize=7,
        color=color,
        arrowprops={"arrowstyle": "-", "linewidth": 0.5, "color": color, "shrinkB": 3}
        if distance > _LINE_FROM
        else None,
    )
    text.set_in_layout(False)
    return text


def _covered(box: Bbox, taken: Sequence[Bbox]) -> float:
    """Square pixels of `box` that others have."""
    shared = (Bbox.intersection(box, other) for other in taken)
    return sum(part.width * part.height for part in shared if part is not None)


def _outside(box: Bbox, frame: Bbox) -> float:
    inside = Bbox.intersection(box, frame)
    return box.width * box.height - (inside.width * inside.height if inside is not None else 0.0)
