"""The optimizers, schedules and augmentation of networks people use; text as data."""

import math
from pathlib import Path

import pytest
import torch

from ibnn.lab import data
from ibnn.lab.models import network_kind
from ibnn.lab.training import (
    ConfigError,
    RunConfig,
    RunFolder,
    make_listeners,
    train,
    with_checksum,
)
from ibnn.lab.training.augmentation import augmented
from ibnn.lab.training.epochs import epochs
from ibnn.lab.training.optimizer import make_optimizer
from tests.lab.training.tiny import assert_same_run, images

GPT = RunConfig(
    dataset="sums",
    network="gpt",
    width=16,
    depth=1,
    heads=2,
    context=32,
    n_train=200,
    n_test=40,
    neuron="implicit",
    **{**network_kind("gpt").recipe, "epochs": 3},
)
VIT = RunConfig(
    dataset="digits",
    network="vit",
    width=16,
    depth=1,
    heads=2,
    patch=4,
    neuron="implicit",
    **{**network_kind("vit").recipe, "epochs": 3},
)


class StopError(BaseException):
    pass


@pytest.mark.parametrize("config", [GPT, VIT, VIT.replace(optimizer="sgd")])
def test_a_run_that_was_stopped_ends_as_a_whole_one(config: RunConfig, tmp_path: Path) -> None:
    dataset = data.load("sums") if config.network == "gpt" else images()

    def stop(metrics):
        if metrics.epoch == 2:
            raise StopError

    train(config, tmp_path / "whole", dataset=dataset)
    with pytest.raises(StopError):
        train(config, tmp_path / "cut", dataset=dataset, on_epoch=stop, checkpoint_seconds=0)
    train(config, tmp_path / "cut", dataset=dataset)
    assert_same_run(*(RunFolder(tmp_path / side, config.identity()) for side in ("whole", "cut")))


def test_a_gpt_learns_more_than_how_often_characters_are(tmp_path: Path) -> None:
    result = train(GPT.replace(n_train=None, epochs=4, batch_size=8), tmp_path)
    x = data.load("sums").cut_anew(32).x_train
    frequencies = torch.bincount(x.flatten()).double() / x.numel()
    entropy = -(frequencies * frequencies.log2()).sum().item()
    assert result.best_bits_per_character is not None
    assert result.best_bits_per_character < entropy - 0.5
    assert math.isclose(result.loss / math.log(2), result.best_bits_per_character, rel_tol=0.2)
    lines = RunFolder(tmp_path, result.identity).metrics()
    assert "bits per character" in str(lines[-1])
    best = min(line.bits_per_character or math.inf for line in lines)
    assert result.best_bits_per_character == best
    assert 0 < lines[-1].accuracy < 1
    assert 0 < lines[-1].train_accuracy < 1


def test_text_and_images_need_their_own_networks(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"network is 'ucn' but sums is text, expected .*'gpt'"):
        train(RunConfig(dataset="sums"), tmp_path)
    with pytest.raises(ConfigError, match="network is 'gpt' but digits is not text"):
        train(GPT.replace(dataset="digits"), tmp_path)
    with pytest.raises(ConfigError, match="text is not moved"):
        GPT.replace(adversarial_eps=0.1)
    with pytest.raises(ConfigError, match="'none' for text"):
        GPT.replace(augmentation="crop-flip")


def test_a_text_of_ones_own_is_named_by_its_contents(tmp_path: Path) -> None:
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    for path in (first, second):
        path.write_text("to be or not to be, " * 60, encoding="utf-8")
    names = {with_checksum(GPT.replace(dataset=str(p))).identity() for p in (first, second)}
    assert len(names) == 1
    second.write_text("to be or not to bee, " * 60, encoding="utf-8")
    assert with_checksum(GPT.replace(dataset=str(second))).identity() not in names


def test_a_cosine_rises_in_its_warm_up_and_ends_low() -> None:
    config = VIT.replace(epochs=10, lr_warmup=0.2, lr_low=0.001, lr_high=0.01)
    rates = [epoch.rate_at(config, part) for epoch in epochs(config) for part in (0.0, 0.5)]
    assert rates[:5] == pytest.approx([0.001, 0.00325, 0.0055, 0.00775, 0.01])
    assert rates[4:] == sorted(rates[4:], reverse=True)
    # half a step before the end: 0.001 + 0.009 (1 + cos(15 pi / 16)) / 2
    assert rates[-1] == pytest.approx(0.001 + 0.0045 * (1 + math.cos(math.pi * 15 / 16)))
    with pytest.raises(ConfigError, match=r"lr_warmup is 0.1, expected 0 with schedule 'triangle'"):
        RunConfig(dataset="digits", lr_warmup=0.1)


def test_adamw_decays_matrices_alone() -> None:
    from ibnn.lab.training import build_network

    network = build_network(VIT, (1, 8, 8), 3)
    decayed, spared = make_optimizer(VIT, network).param_groups
    assert decayed["weight_decay"] == VIT.weight_decay
    assert spared["weight_decay"] == 0
    assert all(p.ndim > 1 for p in decayed["params"])
    assert all(p.ndim < 2 for p in spared["params"])


def test_augmented_images_are_shifted_and_some_mirrored() -> None:
    x = torch.rand(64, 2, 8, 8, generator=torch.Generator().manual_seed(0))
    moved = augmented(x, "crop-flip", torch.Generator().manual_seed(1))
    assert torch.equal(augmented(x, "crop-flip", torch.Generator().manual_seed(1)), moved)
    assert augmented(x, "none", torch.Generator()) is x
    padded = torch.nn.functional.pad(x, (1, 1, 1, 1))
    seen = set()
    for image, found in zip(padded, moved, strict=True):
        places = [
            (top, left, mirror)
            for top in range(3)
            for left in range(3)
            for mirror in (False, True)
            for cut in [image[:, top : top + 8, left : left + 8]]
            if torch.equal(cut.flip(2) if mirror else cut, found)
        ]
        assert len(places) == 1
        seen.add(places[0])
    # 18 equally likely ways, 64 images: fewer than 12 of them have odds below 1e-6
    assert len(seen) >= 12


def test_a_listener_of_a_text_run_is_told_bits(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    result = train(GPT.replace(epochs=1), tmp_path, listeners=make_listeners(["tensorboard"]))
    assert result.best_bits_per_character is not None
