"""What a report says of the training is read from the runs: another run, another sentence."""

from copy import copy

import pytest

from ibnn.lab.experiments import Settings, get
from ibnn.lab.experiments.protocol import protocol
from ibnn.lab.experiments.readings import never_learnt
from ibnn.lab.models import networks, register_network
from ibnn.lab.models.vit import ViTKind
from ibnn.lab.training import RunConfig
from tests.lab.experiments.invented import invent


class Asked:
    """An experiment of just these runs."""

    def __init__(self, *configs: RunConfig):
        self.configs = list(configs)

    def plan(self, settings, results):
        return self.configs


def lines(*configs: RunConfig) -> dict[str, str]:
    runs = invent(Asked(*configs), Settings(), lambda config: 0.5, lambda config: {})
    return dict(protocol(runs))


IMPLICIT = RunConfig(dataset="digits", neuron="implicit")


@pytest.mark.parametrize(
    ("dataset", "kernel", "images"),
    [("mnist", "4 x 4", "1 x 28 x 28"), ("svhn", "5 x 5", "3 x 32 x 32"), ("digits", "1 x 1", "8")],
)
def test_the_kernel_and_the_images_are_those_of_the_dataset(dataset, kernel, images):
    told = lines(RunConfig(dataset=dataset))["Network"]
    assert f"{kernel} kernels" in told
    assert images in told


@pytest.mark.parametrize(
    ("change", "line", "text"),
    [
        ({"sigma": "arctan"}, "Sigma", "arctan"),
        ({"slope": 3.0}, "Slope p", "3"),
        ({"learn_slope": True}, "Slope p", "10 at the start, learnt"),
        ({"coupling": "channels"}, "Coupling", "the channels at its position"),
        ({"coupling": "window", "window": 5}, "Coupling", "5 x 5 of its channel (box)"),
        ({"solver": "gradient"}, "Solver", "gradient"),
        ({"lam": -0.3, "learn_lam": False}, "λ", "fixed: -0.3"),
        ({"lam": 0.02}, "λ", "learnt from 0.02"),
        ({"epochs": 7}, "Training", "7 epochs after 2"),
        ({"warmup_epochs": 5}, "Training", "after 5 of warm-up"),
        ({"momentum": 0.5}, "Optimizer", "momentum 0.5"),
        ({"batch_size": 32}, "Optimizer", "batch 32"),
        ({"clip": 2.5}, "Optimizer", "norm at most 2.5"),
        ({"clip": None}, "Optimizer", "gradient not clipped"),
        ({"lr_high": 0.3}, "Optimizer", "0.001 to 0.3"),
        ({"initialisation": "torch"}, "Initialization", "PyTorch's default"),
        ({"weight_decay": 0.01}, "Further", "weight_decay 0.01"),
        ({"dtype": "float64"}, "Further", "dtype float64"),
        ({"adjoint": "unrolled"}, "Further", "adjoint unrolled"),
        ({"layers": 2, "channels": 5}, "Network", "UCN(2,5)"),
        ({"neuron": "mean-field"}, "Neuron", "each unit is coupled only to the mean"),
    ],
)
def test_every_setting_follows_the_configuration(change, line, text):
    assert text in lines(IMPLICIT.replace(**change))[line]
    assert text not in lines(IMPLICIT).get(line, "")


def test_a_network_of_tokens_from_outside_couples_the_units_of_a_token(monkeypatch):
    class OtherViT(ViTKind):
        name = "other-vit"

    monkeypatch.setattr(networks, "_KINDS", copy(networks._KINDS))
    register_network(OtherViT())
    for network in ("vit", "other-vit"):
        assert "units of its own token" in lines(IMPLICIT.replace(network=network))["Coupling"]


def test_settings_that_differ_between_runs_are_all_listed():
    told = lines(RunConfig(dataset="digits"), IMPLICIT, IMPLICIT.replace(slope=3.0, seed=1))
    assert told["Slope p"] == "10; 3"
    assert told["Seeds"].startswith("1 standard, 2 implicit")


def test_a_standard_network_has_no_lam():
    assert not {"λ", "Sigma", "Neuron"} & lines(RunConfig(dataset="digits")).keys()


@pytest.mark.parametrize("name", ["learning-speed", "pgd", "lambda-sweep"])
def test_reports_tell_the_epochs_that_were_trained_not_those_of_the_preset(name):
    settings = Settings(preset="smoke", epochs=7)
    runs = invent(get(name), settings, lambda c: 0.5, lambda c: {"images": 9, "white_box": [1] * 9})
    told = dict(get(name).find(settings, runs).settings)
    assert told["Training"].startswith("7 epochs after 2")


def test_networks_that_never_learnt_are_named():
    (note,) = never_learnt([("a", (0.1, 0.1, 0.1)), ("b", (0.1, 0.2, 0.1)), ("c", (0.1,))])
    assert note.endswith("count all the same: a.")
    assert never_learnt([("b", (0.1, 0.2))]) == []
