"""The time beforehand: measured on this machine, and scaled as the runs are."""

import pytest

from ibnn.lab import data
from ibnn.lab.runner import estimate as module
from ibnn.lab.runner.engine import EngineError, EngineOptions
from ibnn.lab.runner.estimate import Pace, estimate, measure
from ibnn.lab.training import RunConfig

STANDARD = RunConfig(dataset="digits", epochs=10, warmup_epochs=2, n_train=1000, n_test=300)
IMPLICIT = STANDARD.replace(neuron="implicit")


@pytest.fixture
def paces(monkeypatch):
    """Seconds per image that make the arithmetic plain."""

    def fake(configs, settings):
        slow = {"standard": Pace(1e-3, 1e-4), "implicit": Pace(3e-3, 2e-4)}
        return [slow[config.neuron] for config in configs]

    monkeypatch.setattr(module, "_measure", fake)


def test_epochs_images_and_warm_up_are_counted(paces, tmp_path):
    alone = EngineOptions(root=tmp_path)
    # 12 epochs of 1000 images and a validation of 300
    assert estimate([STANDARD], alone) == pytest.approx(12 * (1.0 + 0.03))
    # the warm-up has standard neurons
    assert estimate([IMPLICIT], alone) == pytest.approx(10 * (3.0 + 0.06) + 2 * (1.0 + 0.03))


def test_shares_and_held_out_images_are_not_trained_on(paces, tmp_path):
    less = STANDARD.replace(share=0.5, hold_out=0.2)
    # 400 of 1000 images; the 200 held out are validated on
    assert estimate([less], EngineOptions(root=tmp_path)) == pytest.approx(12 * (0.4 + 0.02))


def test_workers_share_the_runs_but_none_is_split(paces, tmp_path):
    one = 12 * (1.0 + 0.03)
    seeds = [STANDARD.replace(seed=seed) for seed in range(4)]
    assert estimate(seeds, EngineOptions(root=tmp_path, workers=2)) == pytest.approx(2 * one)
    assert estimate(seeds[:1], EngineOptions(root=tmp_path, workers=2)) == pytest.approx(one)


def test_a_pace_is_measured():
    pace = measure(IMPLICIT, data.load("digits"))
    assert 0 < pace.validation < pace.training < 1


def test_the_measuring_process_speaks_for_itself(tmp_path):
    seconds = estimate([IMPLICIT], EngineOptions(root=tmp_path))
    assert 0 < seconds < 600


def test_what_cannot_be_measured_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_sizes", lambda name, settings: (1, 1))
    with pytest.raises(EngineError, match=r"could not be measured.*nothing\.npz"):
        estimate([STANDARD.replace(dataset="nothing.npz")], EngineOptions(root=tmp_path))
