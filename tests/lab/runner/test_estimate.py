"""The time beforehand: measured on this machine, and scaled as the runs are."""

import pytest

from ibnn.lab.runner import estimate as module
from ibnn.lab.runner.estimate import Pace, estimate, measure
from ibnn.lab.runner.options import RunnerError, RunnerOptions
from ibnn.lab.training import RunConfig

STANDARD = RunConfig(dataset="digits", epochs=10, warmup_epochs=2, n_train=1000, n_test=300)
IMPLICIT = STANDARD.replace(neuron="implicit")


@pytest.fixture
def paces(monkeypatch):
    """Seconds per image that make the arithmetic plain."""

    def fake(configs, *how):
        slow = {"standard": Pace(1e-3, 1e-4), "implicit": Pace(3e-3, 2e-4)}
        return [slow[config.neuron] for config in configs]

    monkeypatch.setattr(module, "_measure", fake)


def test_epochs_images_and_warm_up_are_counted(paces, tmp_path):
    alone = RunnerOptions(root=tmp_path)
    # 12 epochs of 1000 images and a validation of 300
    assert estimate([STANDARD], alone) == pytest.approx(12 * (1.0 + 0.03))
    # the warm-up has standard neurons
    assert estimate([IMPLICIT], alone) == pytest.approx(10 * (3.0 + 0.06) + 2 * (1.0 + 0.03))


def test_epochs_without_a_validation_take_less(paces, tmp_path):
    rarely = IMPLICIT.replace(validate_every=4)
    # after epochs 4, 8 and the last, 10; after both of the warm-up
    expected = (10 * 3.0 + 3 * 0.06) + 2 * (1.0 + 0.03)
    assert estimate([rarely], RunnerOptions(root=tmp_path)) == pytest.approx(expected)


def test_shares_and_held_out_images_are_not_trained_on(paces, tmp_path):
    less = STANDARD.replace(share=0.5, hold_out=0.2)
    # 400 of 1000 images; the 200 held out are validated on
    assert estimate([less], RunnerOptions(root=tmp_path)) == pytest.approx(12 * (0.4 + 0.02))


def test_workers_share_the_runs_but_none_is_split(paces, tmp_path):
    one = 12 * (1.0 + 0.03)
    seeds = [STANDARD.replace(seed=seed) for seed in range(4)]
    assert estimate(seeds, RunnerOptions(root=tmp_path, workers=2)) == pytest.approx(2 * one)
    assert estimate(seeds[:1], RunnerOptions(root=tmp_path, workers=2)) == pytest.approx(one)


def test_a_dataset_is_read_once_for_all_its_runs(paces, tmp_path, monkeypatch):
    read, load = [], module.data.load
    monkeypatch.setattr(
        module.data, "load", lambda name, root: read.append(name) or load(name, root)
    )
    estimate([STANDARD.replace(seed=seed) for seed in range(5)], RunnerOptions(root=tmp_path))
    assert read == ["digits"]


def test_a_pace_is_measured():
    pace = measure(IMPLICIT, (1, 8, 8), 10)
    assert 0 < pace.validation < pace.training < 1


def test_attacks_on_the_batches_that_are_trained_on_are_part_of_the_pace():
    attacked = STANDARD.replace(adversarial_eps=0.05, adversarial_steps=20)
    assert measure(attacked, (1, 8, 8), 10).training > 4 * measure(STANDARD, (1, 8, 8), 10).training
    for kind in (module._kind, module._coarse_kind):
        assert kind(attacked) != kind(STANDARD)


def test_the_measuring_process_speaks_for_itself(tmp_path):
    seconds = estimate([IMPLICIT], RunnerOptions(root=tmp_path))
    assert 0 < seconds < 600


def test_what_cannot_be_measured_is_said(tmp_path, monkeypatch):
    points = module.Amount(1, 1, (2,), 2)
    monkeypatch.setattr(module, "_size", lambda name, options: points)
    with pytest.raises(RunnerError, match=r"could not be measured.*arrows has no images"):
        estimate([STANDARD.replace(dataset="arrows")], RunnerOptions(root=tmp_path))


def test_a_coarse_estimate_measures_few_networks_and_scales_them(monkeypatch, tmp_path):
    asked = []

    def fake(configs, *how):
        asked.append(len(configs))
        return [Pace(1e-3 * c.layers * c.channels, 1e-4 * c.layers * c.channels) for c in configs]

    monkeypatch.setattr(module, "_measure", fake)
    grid = [
        IMPLICIT.replace(lam=lam, learn_lam=False, slope=slope, channels=channels)
        for lam in (-0.1, 0.05)
        for slope in (5.0, 10.0)
        for channels in (1, 2, 8)
    ]
    fine, coarse = (estimate(grid, RunnerOptions(root=tmp_path), coarse=on) for on in (False, True))
    assert asked == [12 + 3, 1 + 1]
    assert fine == pytest.approx(coarse)
