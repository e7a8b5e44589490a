"""Adversarial training: images stay in their ball, hurt more there, and a kill changes nothing."""

import pytest
import torch

from ibnn.lab.cli import main
from ibnn.lab.models import UCN
from ibnn.lab.runner.ensemble import suits
from ibnn.lab.training import ConfigError, RunConfig, RunFolder, all_runs, build_network, loss_of
from ibnn.lab.training import train as train_run
from ibnn.lab.training.adversarial import adversarial_examples, ascend
from tests.lab.training.tiny import DIGITS, PLANE, assert_same_run, images

HARDENED = DIGITS.replace(adversarial_eps=0.1, adversarial_steps=3)


def train(config, root, **options) -> RunFolder:
    train_run(config, root, dataset=images(), checkpoint_seconds=0, **options)
    return RunFolder(root, config.identity())


def random(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    split = images()
    return split.x_train[:32].float() / 255, split.y_train[:32]


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("neuron", ["standard", "implicit"])
def test_images_stay_in_their_ball_and_range_and_hurt_more(norm, neuron):
    x, y = batch()
    network = UCN((1, 8, 8), 3, 1, 2, neuron, lam=0.05, initialisation="torch", generator=random(1))
    network.eval()
    eps = 0.1
    moved = ascend(network, x, y, eps, 5, norm, random())
    change = (moved - x).flatten(1)
    far = change.abs().amax(1) if norm == "linf" else change.norm(dim=1)
    assert 0.9 * eps < float(far.max()) <= eps + 1e-6  # float32 rounds x + change
    assert float(moved.min()) >= 0
    assert float(moved.max()) <= 1
    start = ascend(network, x, y, eps, 0, norm, random())
    losses = [loss_of(network(images), y).item() for images in (x, start, moved)]
    assert losses[2] > max(losses[:2])


def test_points_have_no_range():
    x = torch.tensor([[-0.9, 0.2], [0.3, -0.7]])
    network = build_network(PLANE, (2,), 2).eval()
    moved = ascend(network, x, torch.tensor([0, 1]), 0.05, 3, "linf", random())
    assert float(moved.min()) < 0
    assert float((moved - x).abs().max()) <= 0.05 + 1e-6


def test_the_inner_loop_leaves_the_network_as_it_was():
    x, y = batch()
    network = build_network(HARDENED, (1, 8, 8), 3).train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    adversarial_examples(HARDENED, network, x, y, at=(0, 0))
    assert network.training
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    assert all(parameter.grad is None for parameter in network.parameters())


def test_random_starts_depend_on_seed_epoch_and_batch_alone():
    x, y = batch()
    network = build_network(HARDENED, (1, 8, 8), 3)

    def moved(config=HARDENED, at=(3, 4)) -> torch.Tensor:
        return adversarial_examples(config, network, x, y, at=at)

    assert torch.equal(moved(), moved())
    for other in (moved(at=(3, 5)), moved(at=(4, 4)), moved(HARDENED.replace(seed=1))):
        assert not torch.equal(moved(), other)


def test_no_eps_is_no_attack():
    x, y = batch()
    assert adversarial_examples(DIGITS, build_network(DIGITS, (1, 8, 8), 3), x, y, at=(0, 0)) is x


def test_a_kill_after_every_epoch_changes_nothing(tmp_path):
    class Killed(BaseException):
        pass

    def die(metrics) -> None:
        raise Killed

    whole = train(HARDENED, tmp_path / "whole")
    for _ in range(HARDENED.warmup_epochs + HARDENED.epochs):
        with pytest.raises(Killed):
            train(HARDENED, tmp_path / "killed", on_epoch=die)
    assert_same_run(whole, train(HARDENED, tmp_path / "killed"))


def test_it_makes_a_network_harder_to_attack(tmp_path):
    """At the eps trained for, on images it has not seen."""
    plain = DIGITS.replace(neuron="standard", epochs=15, lr_high=0.1)
    adversarial_examplesed = plain.replace(adversarial_eps=0.2, adversarial_steps=3)
    split = images()
    x, y = split.x_test.float() / 255, split.y_test
    right = []
    for config in (plain, adversarial_examplesed):
        network = train(config, tmp_path).network()
        moved = ascend(network, x, y, 0.2, 20, "linf", random())
        right.append(float((network(moved).argmax(1) == y).float().mean()))
    # two standard errors of a difference of shares of 100 images are at most 0.14
    assert right[1] > right[0] + 0.14


def test_older_runs_keep_their_names():
    config = RunConfig(dataset="digits", epochs=3)
    assert config.identity() == "6ca99e943534"
    assert config.replace(adversarial_steps=3, adversarial_norm="l2").identity() == "6ca99e943534"
    one, other = (config.replace(adversarial_eps=0.1, adversarial_steps=n) for n in (3, 4))
    assert len({config.identity(), one.identity(), other.identity()}) == 3
    assert one.title() == "digits UCN(1,3) standard adversarial linf 0.1 seed 0"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"adversarial_eps": -0.1}, "adversarial_eps is -0.1, expected 0 or more"),
        ({"adversarial_steps": 0}, "adversarial_steps is 0, expected at least 1"),
        ({"adversarial_norm": "l1"}, "adversarial_norm is 'l1', expected one of linf, l2"),
    ],
)
def test_wrong_values_are_refused(values, message):
    with pytest.raises(ConfigError, match=message):
        RunConfig(dataset="digits", **values)


def test_the_ensemble_engine_leaves_it_to_the_loop():
    fixed = PLANE.replace(learn_lam=False)
    assert suits(fixed)
    assert not suits(fixed.replace(adversarial_eps=0.1))


def test_the_command_line_takes_it(tmp_path):
    line = "train --dataset digits --n-train 100 --n-test 50 --channels 1 --epochs 1"
    options = "--adversarial-eps 0.1 --adversarial-steps 2 --adversarial-norm l2"
    with pytest.raises(SystemExit) as end:
        main([*line.split(), *options.split(), "--out", str(tmp_path)])
    assert end.value.code == 0
    (run,) = all_runs(tmp_path)
    config = run.config()
    assert (config.adversarial_eps, config.adversarial_steps) == (0.1, 2)
    assert config.adversarial_norm == "l2"
