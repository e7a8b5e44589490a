"""Taking less of a dataset, and spoiling its labels, by a seed."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from ibnn.lab.data import Dataset

SIZES = (40, 100, 3, 257)  # per class: also one that most shares round to nothing


@pytest.fixture
def ds():
    """Each example carries its own number, so that it can be followed."""
    y = torch.from_numpy(np.random.RandomState(0).permutation(np.repeat(range(4), SIZES)))
    x = torch.arange(float(len(y)))[:, None].repeat(1, 2)
    return Dataset("numbered", x, y, x[:8] + 1000, y[:8], 4, (2,))


def members(ds):
    return {int(number) for number in ds.x_train[:, 0]}


def test_a_subset_takes_the_same_share_of_every_class(ds):
    part = ds.subset(0.1, seed=1)
    assert part.y_train.bincount().tolist() == [4, 10, 1, 26]
    assert torch.equal(part.x_test, ds.x_test)
    assert part.classes == 4


def test_a_subset_keeps_each_label_with_its_example(ds):
    part = ds.subset(0.3, seed=1)
    assert torch.equal(part.y_train, ds.y_train[part.x_train[:, 0].long()])


def test_smaller_subsets_lie_in_larger_ones(ds):
    shares = (0.001, 0.05, 0.1, 0.2, 0.5, 0.8, 1.0)
    sets = [members(ds.subset(share, seed=3)) for share in shares]
    assert all(small <= large for small, large in pairwise(sets))
    assert len(sets[0]) == 4
    assert torch.equal(ds.subset(1.0, seed=3).x_train, ds.x_train)


def test_a_seed_decides_and_two_seeds_differ(ds):
    assert members(ds.subset(0.2, seed=1)) == members(ds.subset(0.2, seed=1))
    assert members(ds.subset(0.2, seed=1)) != members(ds.subset(0.2, seed=2))
    noisy = [ds.with_label_noise(0.2, seed).y_train for seed in (1, 1, 2)]
    assert torch.equal(noisy[0], noisy[1])
    assert not torch.equal(noisy[0], noisy[2])


def test_the_same_on_every_machine(ds):
    """Frozen numbers: if they change, results published with a seed no longer repeat."""
    assert sorted(members(ds.subset(0.02, seed=0))) == FROZEN_SUBSET
    changed = ds.with_label_noise(0.02, seed=0).y_train != ds.y_train
    assert changed.nonzero()[:, 0].tolist() == FROZEN_NOISE


FROZEN_SUBSET = [17, 63, 139, 155, 201, 283, 289, 328, 396]
FROZEN_NOISE = [105, 112, 121, 190, 198, 237, 247, 303]


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.4, 0.99, 1.0])
def test_label_noise_changes_exactly_its_share(ds, share):
    noisy = ds.with_label_noise(share, seed=5)
    changed = int((noisy.y_train != ds.y_train).sum())
    assert changed == int(share * 400 + 0.5)
    assert noisy.y_train.min() >= 0
    assert noisy.y_train.max() < 4
    assert torch.equal(noisy.y_test, ds.y_test)
    assert torch.equal(noisy.x_train, ds.x_train)


def test_label_noise_grows_without_changing_its_mind(ds):
    clean, little, much = (ds.with_label_noise(share, 5).y_train for share in (0.0, 0.1, 0.4))
    assert torch.equal(clean, ds.y_train)
    spoilt = little != clean
    assert torch.equal(little[spoilt], much[spoilt])


def test_wrong_labels_are_spread_evenly_over_the_wrong_classes():
    count = 30_000
    y = torch.zeros(count, dtype=torch.int64)
    x = torch.zeros(count, 2)
    noisy = Dataset("zeros", x, y, x[:1], y[:1], 4, (2,)).with_label_noise(1.0, seed=0).y_train
    # Each wrong class has 10,000 expected, standard deviation sqrt(30000 * 2/9) = 82: six of them.
    assert noisy.bincount().sub(torch.tensor([0, *[10_000] * 3])).abs().max() < 6 * 82


def test_holding_out_splits_the_training_data_and_hides_the_test_split(ds):
    rest, held = ds.hold_out(0.25, seed=2)
    assert members(rest) | members(held) == members(ds)
    assert not members(rest) & members(held)
    assert held.y_train.bincount().tolist() == [10, 25, 1, 64]
    for part in (rest, held):
        assert torch.equal(part.x_test, held.x_train)
        assert torch.equal(part.y_test, held.y_train)


def test_holding_out_is_not_the_complement_of_a_subset_of_the_same_seed(ds):
    assert members(ds.hold_out(0.25, seed=2)[1]) != members(ds.subset(0.25, seed=2))


def test_first_takes_slices(ds):
    small = ds.first(10, 3)
    assert torch.equal(small.x_train, ds.x_train[:10])
    assert len(small.y_test) == 3
    assert len(ds.first(10**6, 1).x_train) == 400


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda ds: ds.subset(0.0, 0), r"fraction=0.0, expected a number in \(0, 1\]"),
        (lambda ds: ds.subset(1.5, 0), r"fraction=1.5, expected a number in \(0, 1\]"),
        (lambda ds: ds.with_label_noise(-0.1, 0), r"fraction=-0.1, expected a number in \[0, 1\]"),
        (lambda ds: ds.with_label_noise(float("nan"), 0), r"fraction=nan"),
        (lambda ds: ds.hold_out(1.0, 0), r"fraction=1.0, expected a number in \(0, 1\)"),
        (lambda ds: ds.hold_out(0.9999, 0), "holds out all 400"),
        (lambda ds: ds.first(0, 1), "n_train=0, expected at least 1"),
    ],
)
def test_impossible_requests_name_the_argument(ds, call, message):
    with pytest.raises(ValueError, match=message):
        call(ds)


def test_parts_that_do_not_fit_together_are_refused():
    x, y = torch.zeros(3, 2), torch.zeros(3, dtype=torch.int64)
    with pytest.raises(ValueError, match="y_test has shape"):
        Dataset("bad", x, y, x, y[:2], 2, (2,))
    with pytest.raises(TypeError, match=r"y_train is .*int32"):
        Dataset("bad", x, y.int(), x, y, 2, (2,))
    with pytest.raises(TypeError, match=r"x_train is .*float64"):
        Dataset("bad", x.double(), y, x, y, 2, (2,))
    with pytest.raises(ValueError, match="x_train has shape"):
        Dataset("bad", x, y, x, y, 2, (3,))
