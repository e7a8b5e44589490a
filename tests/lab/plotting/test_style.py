"""Colors can be told apart, also where only lightness is left of them."""

from itertools import pairwise

import pytest

from ibnn.lab.plotting import style


def lightness(color: str) -> float:
    """L* of CIELAB, 0 to 100."""
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    y = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return 116 * y ** (1 / 3) - 16 if y > 0.008856 else 903.3 * y


@pytest.mark.parametrize("shades", [style.greens, style.reds])
@pytest.mark.parametrize("count", range(2, 9))
def test_neighboring_shades_differ_in_lightness(shades, count):
    values = [lightness(color) for color in shades(count)]
    # a difference of 2.3 is just noticeable side by side (Mahy et al. 1994): lines lie apart
    assert all(before - after > 2 * 2.3 for before, after in pairwise(values))


def test_one_shade_is_neither_pale_nor_dark():
    assert lightness(style.greens(2)[1]) < lightness(style.greens(1)[0]) < 70


def test_a_title_says_what_the_figure_shows():
    figure, _ = style.figure(width=4, height=3, title="Accuracy against epoch")
    assert figure.get_suptitle() == "Accuracy against epoch"
