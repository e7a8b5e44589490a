"""One run from config to result."""

import errno
import json
import os
from pathlib import Path

import pytest
import torch

from ibnn.engine.native import loader
from ibnn.lab import data
from ibnn.lab.models import implicit_layers
from ibnn.lab.training import (
    DivergedError,
    Metrics,
    RunConfig,
    RunFolder,
    RunLockedError,
    build_network,
    load_network,
    predict,
    train,
)
from ibnn.lab.training.split import prepare
from tests.lab.training.tiny import DIGITS, PLANE, assert_same_run, numbers


def folder(root: Path, config=DIGITS) -> RunFolder:
    return RunFolder(root, config.identity())


@pytest.mark.parametrize("config", [DIGITS, DIGITS.replace(neuron="standard"), PLANE])
def test_twice_the_same_run_to_the_last_bit(config, tmp_path):
    train(config, tmp_path / "one")
    torch.rand(3)  # the global generator has no say
    train(config, tmp_path / "two")
    assert_same_run(folder(tmp_path / "one", config), folder(tmp_path / "two", config))


def test_seeds_differ(tmp_path):
    other = DIGITS.replace(seed=1)
    train(DIGITS, tmp_path)
    train(other, tmp_path)
    assert numbers(folder(tmp_path)) != numbers(folder(tmp_path, other))


def test_training_leaves_the_global_generator_alone(tmp_path):
    before = torch.random.get_rng_state()
    train(PLANE, tmp_path)
    assert torch.equal(before, torch.random.get_rng_state())


def test_both_neurons_share_the_warm_up(tmp_path):
    standard = DIGITS.replace(neuron="standard")
    train(DIGITS, tmp_path)
    train(standard, tmp_path)
    ours, theirs = numbers(folder(tmp_path)), numbers(folder(tmp_path, standard))
    assert ours[:2] == theirs[:2]
    assert [line["stage"] for line in ours] == ["warm-up"] * 2 + ["training"] * 3


def test_lam_fixed_at_zero_is_the_standard_network(tmp_path):
    """The same code, the same numbers: whatever differs between neurons is lam."""
    standard = DIGITS.replace(neuron="standard", validate_every=2)
    still = standard.replace(neuron="implicit", learn_lam=False)
    train(standard, tmp_path)
    train(still, tmp_path)
    keys = ("epoch", "accuracy", "loss", "train_loss", "learning_rate")
    for one, other in zip(
        numbers(folder(tmp_path, standard)), numbers(folder(tmp_path, still)), strict=True
    ):
        assert [one[key] for key in keys] == [other[key] for key in keys]


def test_every_validation_says_what_the_solver_did(tmp_path):
    seen: list[Metrics] = []
    result = train(DIGITS, tmp_path, on_epoch=seen.append)
    assert seen == folder(tmp_path).metrics()
    assert [line.epoch for line in seen] == [1, 2, 1, 2, 3]
    assert [line.learning_rate for line in seen] == [0.001, 0.001, 0.001, 0.01, 0.001]
    last = seen[-1]
    assert len(last.lam) == 1
    assert last.lam != [0.0]  # it learns
    assert last.slope == [10.0]
    assert last.converged == 1.0
    assert last.residual is not None
    assert 0 <= last.residual < 1e-4
    assert last.steps is not None
    assert last.steps >= 1
    assert last.images_per_second > 0
    assert result.lam == last.lam
    assert result.best_accuracy == max(line.accuracy for line in seen[2:])
    assert result.environment["threads"] == torch.get_num_threads()
    assert result.n_train == 300
    assert seen[0].lam == []


@pytest.mark.parametrize("neuron", ["standard", "implicit"])
def test_a_result_says_whether_the_engine_was_compiled(tmp_path, neuron):
    """Convolutions of standard networks are made by it, too: it decides about their last bits."""
    result = train(DIGITS.replace(neuron=neuron, epochs=1), tmp_path)
    assert result.environment["compiled_engine"] is loader.available()


def test_validation_can_be_thinned_out(tmp_path):
    config = PLANE.replace(epochs=5, validate_every=2)
    train(config, tmp_path)
    found = [(line.stage, line.epoch) for line in folder(tmp_path, config).metrics()]
    assert found == [("warm-up", 1), ("training", 2), ("training", 4), ("training", 5)]


def test_the_folder_holds_json_and_safetensors_only(tmp_path):
    train(DIGITS, tmp_path)
    names = {path.name for path in folder(tmp_path).path.iterdir()}
    assert names == {
        "config.json",
        "metrics.jsonl",
        "checkpoint.safetensors",
        "result.json",
        "lock",
    }


@pytest.mark.parametrize("config", [DIGITS, PLANE])
def test_a_trained_network_comes_back_from_its_folder(config, tmp_path):
    result = train(config, tmp_path)
    network = load_network(folder(tmp_path, config).path)
    split = prepare(config, data.load(config.dataset, None))
    with torch.no_grad():
        x, y = next(data.batches(split.x_test, split.y_test, 100))
        right = (predict(network(x)) == y).double().mean().item()
    assert right == pytest.approx(result.accuracy)


def test_a_finished_run_is_not_trained_again(tmp_path):
    first = train(PLANE, tmp_path)
    seen: list[Metrics] = []
    assert train(PLANE, tmp_path, on_epoch=seen.append) == first
    assert not seen


def test_a_loss_that_is_not_finite_stops_the_run_with_a_reason(tmp_path):
    config = PLANE.replace(lr_low=1e30, lr_high=1e30, clip=None, warmup_epochs=0)
    with pytest.raises(DivergedError, match=r"training epoch \d: \w+ loss is (nan|inf) \(learning"):
        train(config, tmp_path)
    assert folder(tmp_path, config).status() != "finished"


def test_a_run_that_another_process_trains_is_left_alone(tmp_path):
    with (
        folder(tmp_path, PLANE).lock(),
        pytest.raises(RunLockedError, match=r"is being trained by process \d+"),
    ):
        train(PLANE, tmp_path)
    train(PLANE, tmp_path)


def test_a_disk_without_locks_is_not_taken_for_another_process(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")

    def missing(*_):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", missing)
    train(PLANE, tmp_path)
    assert folder(tmp_path, PLANE).status() == "finished"


def test_a_lone_last_example_is_left_out(tmp_path):
    """129 = 2 * 64 + 1: one example has no variance for batch normalisation."""
    train(PLANE.replace(n_train=129), tmp_path)


def test_float64_runs(tmp_path):
    config = DIGITS.replace(dtype="float64", epochs=1)
    train(config, tmp_path)
    network = load_network(folder(tmp_path, config).path)
    assert {parameter.dtype for parameter in network.parameters()} == {torch.float64}


def test_the_data_is_cut_and_spoilt_as_the_config_says():
    whole = data.load("digits", None)
    half = prepare(DIGITS.replace(n_train=None, share=0.5), whole)
    assert len(half.x_train) == pytest.approx(len(whole.x_train) / 2, abs=whole.classes)
    noisy = prepare(DIGITS.replace(label_noise=0.2), whole)
    assert (noisy.y_train != whole.y_train[:300]).sum() == 60
    assert torch.equal(noisy.y_test, whole.y_test[:100])
    held = prepare(DIGITS.replace(hold_out=0.1), whole)
    assert len(held.x_train) + len(held.x_test) == 300
    seeded = DIGITS.replace(share=0.5, data_seed=3)
    assert torch.equal(
        prepare(seeded, whole).x_train, prepare(seeded.replace(seed=9), whole).x_train
    )


def test_config_json_is_the_config(tmp_path):
    train(PLANE, tmp_path)
    assert folder(tmp_path, PLANE).config() == PLANE
    assert json.loads(folder(tmp_path, PLANE).config_file.read_text())["dataset"] == "arrows"


def test_a_float64_run_has_the_lam_of_its_config():
    config = RunConfig(dataset="digits", neuron="implicit", lam=-0.2, dtype="float64")
    network = build_network(config, (1, 8, 8), 10)
    assert [float(layer.lam.detach()) for layer in implicit_layers(network)] == [-0.2]
