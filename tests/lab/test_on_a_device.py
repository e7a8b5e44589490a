"""The laboratory on a CUDA device that is not there: training, attacks and the theory's checks."""

import pytest
import torch

from ibnn.lab import attacks, data
from ibnn.lab.theory_checks.run import context_for, run_checks
from ibnn.lab.training import RunFolder, open_network, train
from ibnn.lab.training import device as devices
from ibnn.lab.training.environment import hardware_lines
from tests.lab.training.tiny import DIGITS
from tests.pretend_device import CUDA, counted, pretended

CONFIG = DIGITS.replace(epochs=2, n_train=64, n_test=32)


@pytest.fixture(autouse=True)
def one_gpu(monkeypatch):
    monkeypatch.setenv("IBNN_ENGINE", "portable")
    monkeypatch.setattr(devices, "_present", lambda: ["cuda:0", "cpu"])
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device=None: "None at all")
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device=None: None)
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, device=None: None)


def test_a_run_begins_on_the_host_goes_on_on_the_device_and_ends_on_the_host(tmp_path):
    class Killed(BaseException):
        pass

    def die(epochs):
        def told(metrics):
            if (metrics.stage, metrics.epoch) == ("training", epochs):
                raise Killed

        return told

    whole = train(CONFIG.replace(epochs=3), tmp_path / "whole")
    moved = CONFIG.replace(epochs=3)
    with pytest.raises(Killed):
        train(moved, tmp_path / "moved", on_epoch=die(1), checkpoint_seconds=0)
    with pretended(), pytest.raises(Killed):
        train(moved, tmp_path / "moved", device="cuda", on_epoch=die(2), checkpoint_seconds=0)
    result = train(moved, tmp_path / "moved")
    assert result.environment["devices_used"] == ["cpu", "cuda:0 (None at all)"]
    # three epochs of one step each, the same but for rounding
    assert result.train_loss == pytest.approx(whole.train_loss, rel=1e-4)
    where = dict(hardware_lines([whole.environment, result.environment]))["Device"]
    assert where == "cpu / cuda:0 (None at all); runs that moved to another: 1"


def test_data_are_copied_to_the_device_once(tmp_path):
    uploads = []
    for epochs in (1, 3):
        with pretended(), counted() as counts:
            config = CONFIG.replace(epochs=epochs, batch_size=8)
            train(config, tmp_path / str(epochs), device="auto")
        uploads.append(counts.uploads)
    # an epoch has its order, and 8 steps with nothing of their own
    assert uploads[1] - uploads[0] <= 2 * 2


@pytest.fixture
def network(tmp_path):
    train(CONFIG, tmp_path)
    return open_network(RunFolder(tmp_path, CONFIG.identity()).path).network


@pytest.mark.parametrize(
    ("names", "checks"),
    [("pgd,apgd-t", False), pytest.param("standard", True, marks=pytest.mark.slow)],
)
def test_attacks_find_on_the_device_what_they_find_on_the_host(names, checks, network):
    digits = data.load("digits")
    x, y = data.as_float(digits.x_test[:6]), digits.y_test[:6]
    asked = {"eps": 0.05, "attacks": names, "quick": True, "checks": checks}
    here = attacks.evaluate(network, x, y, **asked)
    with pretended():
        there = attacks.evaluate(network.to(CUDA), x.to(CUDA), y.to(CUDA), **asked)
    assert there.right == here.right
    assert there.certified == here.certified
    assert [row.name for row in there.rows] == [row.name for row in here.rows]
    assert there.rows[0].broken == here.rows[0].broken


# (jacobians uses torch.func, which takes no pretended tensors)
@pytest.mark.parametrize(
    "name",
    [
        "transfer",
        pytest.param("memorization", marks=pytest.mark.slow),
        pytest.param("expressivity", marks=pytest.mark.slow),
        pytest.param("solutions", marks=pytest.mark.slow),
        pytest.param("stealth", marks=pytest.mark.slow),
    ],
)
def test_a_check_of_the_theory_on_a_network_that_is_on_the_device(name, network):
    with pretended():
        context = context_for(network.to(CUDA), data.load("digits"), images=4, quick=True)
        assert context.x.device == CUDA
        found = run_checks(context, [name])
    assert not found.failed, found.failed
    assert len(found.sections) == 1
