"""What a dataset is by default: in one place for each, from its image shape for any other."""

from copy import copy
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from ibnn.lab import data

# As published, or as the runs of preset cpu have had it from the beginning: a change here gives
# every run of the dataset another identity.
NETWORKS = {
    "fashion-mnist": (1, 3),
    "mnist": (1, 3),
    "cifar10": (3, 8),
    "svhn": (2, 3),
    "svhn-resplit": (2, 3),
    "digits": (1, 3),
}
SIZES = {
    "fashion-mnist": (20, 10_000, 5_000),
    "mnist": (20, 10_000, 5_000),
    "cifar10": (10, 3_000, 2_000),
    "svhn": (20, 10_000, 3_000),
    "svhn-resplit": (20, None, None),
    "digits": (20, None, None),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_networks_and_sizes_of_the_known_datasets(name):
    found = data.defaults(name)
    assert (found.layers, found.channels) == NETWORKS[name]
    assert (found.cpu.epochs, found.cpu.n_train, found.cpu.n_test) == SIZES[name]
    assert found.largest_eps == (0.1 if found.image_shape[0] == 1 else 0.03)


def test_the_values_on_the_axes_of_preset_cpu():
    assert data.defaults("fashion-mnist").cpu.widths == (1, 2, 3, 4, 6)
    assert data.defaults("digits").cpu.widths == (1, 2, 3, 4)
    assert data.defaults("svhn").cpu.widths == data.defaults("svhn-resplit").cpu.widths == (1, 2, 3)
    assert data.defaults("cifar10").cpu.widths == (2, 4, 8)
    assert data.defaults("cifar10").cpu.wrong_labels == (0.0, 0.2, 0.4, 0.6)
    assert data.defaults("svhn").cpu.wrong_labels == (0.0, 0.4)
    assert data.defaults("svhn").cpu.fractions == (0.1, 0.2, 0.4, 0.7, 1.0)


def test_the_described_shape_is_the_shape_of_the_data():
    for name in ("digits", "arrows"):
        assert data.defaults(name).image_shape == data.load(name).image_shape


def test_one_dataset_of_each_group_serves_run_all():
    assert data.groups() == {
        "fashion-mnist": ["fashion-mnist"],
        "cifar10": ["cifar10"],
        "svhn": ["svhn", "svhn-resplit"],
    }
    assert "stand in for SVHN" in data.defaults("svhn-resplit").stands_in


@pytest.mark.parametrize(
    ("shape", "layers", "eps", "n_train"),
    [
        ((28, 28), 1, 0.1, 10_000),
        ((32, 32, 3), 2, 0.03, 10_000),
        ((3, 32, 32), 2, 0.03, 10_000),
        ((64, 64, 3), 2, 0.03, 2_500),
        ((1, 64, 64), 1, 0.1, 2_500),
    ],
)
def test_an_unknown_file_gets_them_from_its_image_shape(tmp_path, shape, layers, eps, n_train):
    x, y = np.zeros((4, *shape), np.uint8), np.array([0, 1, 0, 1])
    path = tmp_path / "cifar10.npz"  # the name says nothing about what is inside
    np.savez(path, x_train=x, y_train=y, x_test=x, y_test=y)
    found = data.defaults(path)
    assert (found.layers, found.channels, found.largest_eps) == (layers, 3, eps)
    assert found.cpu.n_train == n_train
    assert found.image_shape == data.load(path).image_shape


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(data.DataError, match=r"mine is not there: put mine\.npz into"):
        data.defaults(tmp_path / "mine.npz")


@dataclass(frozen=True)
class Stripes(data.Source):
    """A dataset of somebody else's: this class and its registration are all there is to it."""

    def find(self, root: Path) -> list[Path]:
        return []

    def advice(self, root: Path) -> str:
        return "nothing is needed"

    def read(self, files) -> data.Dataset:
        y = torch.arange(40) % 2
        x = torch.zeros(40, 3, 8, 8, dtype=torch.uint8)
        x[y == 0, :, ::2], x[y == 1, :, :, ::2] = 200, 200
        return data.Dataset(self.name, x[:30], y[:30], x[30:], y[30:], 2, (3, 8, 8))


@pytest.fixture
def stripes(monkeypatch):
    from ibnn.lab.data import catalogue

    monkeypatch.setattr(catalogue, "SOURCES", copy(catalogue.SOURCES))
    return data.register_dataset(Stripes("stripes", "lying and standing stripes"))


def test_a_dataset_from_outside_is_known_once_it_is_registered(stripes):
    assert data.names()[-1] == "stripes"
    assert data.load("stripes").classes == 2
    assert data.status()[-1].about == "lying and standing stripes"
    assert data.defaults("stripes").layers == 2  # color images: as SVHN
    assert data.content_checksum("stripes") is None
    with pytest.raises(ValueError, match="'stripes' is registered already"):
        data.register_dataset(Stripes("stripes", "others"))


def test_the_content_of_a_file_counts_not_its_name(tmp_path):
    sums = []
    for folder, fill in (("a", 0), ("b", 0), ("c", 1)):
        path = tmp_path / folder / "mine.npz"
        path.parent.mkdir()
        x, y = np.full((4, 8, 8), fill, np.uint8), np.array([0, 1, 0, 1])
        np.savez(path, x_train=x, y_train=y, x_test=x, y_test=y)
        sums.append(data.content_checksum(path))
    assert sums[0] == sums[1] != sums[2]
    assert data.content_checksum("digits") is None
