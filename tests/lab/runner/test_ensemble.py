"""Networks trained as one ensemble: each is the run it would have been alone."""

import time

import pytest
import torch

from ibnn.lab.runner import Event, RunnerError, Stopped, run_all
from ibnn.lab.runner.ensemble import Ensemble, suits
from ibnn.lab.training import RunConfig, RunFolder, train

BASE = RunConfig(
    dataset="arrows",
    network="perceptron",
    n_train=200,
    n_test=100,
    epochs=3,
    warmup_epochs=1,
    batch_size=64,
    initialisation="torch",
    dtype="float64",
)
# lam and slope are exact in float32, in which the layers are made
IMPLICIT = BASE.replace(neuron="implicit", lam=-0.5, learn_lam=False)
RUNS = [BASE, IMPLICIT, IMPLICIT.replace(lam=0.0625, slope=8.0), IMPLICIT.replace(seed=1)]


def ignore(event: Event) -> None:
    """Nobody watches."""


def train_ensemble(configs, root, on_event=ignore, **options):
    return run_all(configs, root, "ensemble", on_event=on_event, **options)


def assert_same_numbers(one: RunFolder, other: RunFolder) -> None:
    """Equal up to rounding: 1e-16 a step, a few dozen steps, solves exact to 1e-12."""
    first, second = one.latest(), other.latest()
    assert first is not None
    assert second is not None
    assert first.weights.keys() == second.weights.keys()
    assert first.momentum.keys() == second.momentum.keys()
    for kind in ("weights", "momentum"):
        for name, value in getattr(first, kind).items():
            torch.testing.assert_close(value, getattr(second, kind)[name], rtol=1e-9, atol=1e-10)
    for ours, theirs in zip(one.metrics(), other.metrics(), strict=True):
        assert (ours.stage, ours.epoch, ours.accuracy) == (
            theirs.stage,
            theirs.epoch,
            theirs.accuracy,
        )
        assert ours.loss == pytest.approx(theirs.loss, rel=1e-9)
        assert ours.train_loss == pytest.approx(theirs.train_loss, rel=1e-9)
        assert ours.lam == theirs.lam
        assert (ours.steps is None) == (theirs.steps is None)
    assert one.result().parameters == other.result().parameters


@pytest.mark.parametrize(
    ("dataset", "reason"),
    [
        ("digits", "RunnerError: digits has 10 classes, but engine 'ensemble' is for two"),
        ("sums", "ConfigError: network is 'perceptron' but sums is text"),
    ],
)
def test_data_that_does_not_suit_fails_its_runs_and_no_others(dataset, reason, tmp_path):
    unsuited, short = BASE.replace(dataset=dataset), BASE.replace(epochs=1, warmup_epochs=0)
    outcome = train_ensemble([unsuited, short], tmp_path)
    assert outcome.done == [short.identity()]
    assert outcome.failed[unsuited.identity()].startswith(reason)
    assert RunFolder(tmp_path, unsuited.identity()).error().startswith(reason)


def test_an_ensemble_gives_the_numbers_of_training_alone(tmp_path):
    outcome = train_ensemble(RUNS, tmp_path / "ensemble", ignore)
    assert len(outcome.done) == 4
    for config in RUNS:
        train(config, tmp_path / "alone")
        assert_same_numbers(
            RunFolder(tmp_path / "ensemble", config.identity()),
            RunFolder(tmp_path / "alone", config.identity()),
        )


def test_the_time_of_epochs_between_validations_counts(tmp_path):
    config = BASE.replace(epochs=40, validate_every=20)
    began = time.perf_counter()
    train_ensemble([config], tmp_path)
    took = time.perf_counter() - began
    result = RunFolder(tmp_path, config.identity()).result()
    assert took / 2 < result.seconds < took


def test_finished_runs_are_not_trained_again(tmp_path):
    train(RUNS[0], tmp_path)
    outcome = train_ensemble(RUNS[:2], tmp_path, ignore)
    assert outcome.skipped == [RUNS[0].identity()]
    assert outcome.done == [RUNS[1].identity()]


@pytest.mark.parametrize("after", [1, 3])
def test_a_stopped_ensemble_goes_on_from_its_checkpoints(after, tmp_path):
    def interrupt(event: Event) -> None:
        metrics = event.metrics
        if metrics is not None and metrics.stage == "training" and metrics.epoch == after:
            raise KeyboardInterrupt

    with pytest.raises(Stopped, match="2 runs to go"):
        train_ensemble(RUNS[:2], tmp_path / "stopped", interrupt, checkpoint_seconds=0)
    checkpoint = RunFolder(tmp_path / "stopped", RUNS[1].identity()).latest()
    assert checkpoint is not None
    assert checkpoint.epochs_done == 1 + after  # the warm-up counts
    train_ensemble(RUNS[:2], tmp_path / "stopped", ignore)
    train_ensemble(RUNS[:2], tmp_path / "whole", ignore)
    for config in RUNS[:2]:
        assert_same_numbers(
            RunFolder(tmp_path / "stopped", config.identity()),
            RunFolder(tmp_path / "whole", config.identity()),
        )


def test_a_network_that_diverges_leaves_the_others_alone(tmp_path, monkeypatch):
    usual, sick, well = Ensemble.step, RUNS[1], RUNS[2]

    def poisoned(self, loss, *rest):
        usual(self, loss, *rest)
        if float(self.lam[0]) == sick.lam:
            self.learnt["head.bias"].data[0] = torch.nan

    train(well, tmp_path / "alone")
    monkeypatch.setattr(Ensemble, "step", poisoned)
    outcome = train_ensemble([sick, well], tmp_path / "ensemble", ignore)
    assert list(outcome.failed) == [sick.identity()]
    assert outcome.failed[sick.identity()].startswith("DivergedError: training epoch 1")
    assert RunFolder(tmp_path / "ensemble", sick.identity()).status() == "failed"
    assert outcome.done == [well.identity()]
    assert_same_numbers(
        RunFolder(tmp_path / "ensemble", well.identity()),
        RunFolder(tmp_path / "alone", well.identity()),
    )


def test_what_an_ensemble_cannot_do_is_refused(tmp_path):
    learnt = BASE.replace(neuron="implicit")
    assert not suits(learnt)
    with pytest.raises(RunnerError, match="'ensemble' cannot train arrows perceptron"):
        train_ensemble([learnt], tmp_path, ignore)


@pytest.mark.parametrize("option", [{"atol": 1e-3}, {"rtol": 1e-3}, {"max_steps": 1}])
def test_runs_with_tolerances_of_their_own_are_trained_alone(option):
    # one solve serves all members, with the usual ones
    assert suits(IMPLICIT)
    assert not suits(IMPLICIT.replace(**option))
