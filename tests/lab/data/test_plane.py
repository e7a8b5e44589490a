"""The sets of points in the plane."""

import numpy as np
import pytest
import torch

from ibnn.lab import data

NAMES = ("arrows", "moons", "circles", "spirals")


@pytest.mark.parametrize("name", NAMES)
def test_balanced_bounded_and_always_the_same(name):
    ds, again = data.load(name), data.load(name)
    assert torch.equal(ds.x_train, again.x_train)
    assert torch.equal(ds.y_test, again.y_test)
    assert ds.x_train.dtype == torch.float32
    assert ds.y_train.dtype == torch.int64
    for x, y in ((ds.x_train, ds.y_train), (ds.x_test, ds.y_test)):
        assert x.shape == (2000, 2)
        assert y.bincount().tolist() == [1000, 1000]
        assert 0.8 < x.abs().max() < 1.2
    assert (ds.image_shape, ds.classes) == ((2,), 2)


@pytest.mark.parametrize("name", NAMES)
def test_seeds_and_splits_differ(name):
    ds, other = data.draw(name, 50, 50, seed=0), data.draw(name, 50, 50, seed=1)
    assert not torch.equal(ds.x_train, other.x_train)
    assert not torch.equal(ds.x_train, ds.x_test)


@pytest.mark.parametrize("name", NAMES)
def test_the_classes_come_mixed(name):
    y = data.load(name).y_train
    # 1000 of 1999 neighbours differ on average, standard deviation about 22: six of them.
    assert abs(int((y[1:] != y[:-1]).sum()) - 1000) < 6 * 22


def test_odd_counts_are_balanced_up_to_one():
    assert data.draw("moons", 7, 5).y_train.bincount().tolist() == [4, 3]


def test_the_classes_of_the_arrows_keep_a_gap():
    ds = data.load("arrows")
    x, y = ds.x_train, ds.y_train
    # Parallel edges are 0.07 to 0.08 apart.
    assert torch.cdist(x[y == 0], x[y == 1]).min() > 0.06


def test_the_inner_arrow_is_not_convex_and_the_ring_fills_its_nooks():
    """Points of the ring lie in the convex hull of the inner arrow: no convex curve separates."""
    ds = data.load("arrows")
    corners = data.arrow_outlines()[2]
    hull = corners[[0, 2, 3, 4, 6]]  # without the two corners where the head meets the shaft
    edges = np.roll(hull, -1, axis=0) - hull
    offsets = ds.x_train.numpy()[:, None] - hull
    cross = edges[:, 0] * offsets[..., 1] - edges[:, 1] * offsets[..., 0]
    inside = np.all(cross < 0, axis=1)
    y = ds.y_train.numpy()
    assert inside[y == 1].all()
    assert inside[y == 0].mean() > 0.05


def test_points_fill_their_regions_evenly():
    """The arrow's shaft holds as many points as its area says."""
    corners = data.arrow_outlines()[2]
    (tail, shaft), (neck, _), (_, head), (tip, _) = corners[:4]
    shaft_area, head_area = 2 * shaft * (neck - tail), head * (tip - neck)
    share = shaft_area / (shaft_area + head_area)
    ds = data.load("arrows")
    found = float((ds.x_train[ds.y_train == 1, 0] < neck).float().mean())
    assert abs(found - share) < 5 * (share * (1 - share) / 1000) ** 0.5


def test_unknown_sets_and_sizes_are_refused():
    with pytest.raises(data.DataError, match="unknown set 'stars'"):
        data.draw("stars")
    with pytest.raises(ValueError, match="n_test=0"):
        data.draw("moons", 10, 0)
