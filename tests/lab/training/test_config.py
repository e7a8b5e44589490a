"""A run is named by what changes its result."""

import json
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import ibnn
from ibnn import sigma
from ibnn.lab.models import network_names, neuron_names
from ibnn.lab.training import ConfigError, RunConfig
from ibnn.lab.training.config import CHOICES

# Stored: these names are on users' disks. They may change only with config.PROTOCOL.
STORED = {
    "6ca99e943534": RunConfig(dataset="digits", epochs=3),
    "e41dd9ee8579": RunConfig(
        dataset="svhn", layers=2, neuron="implicit", lam=-0.2, learn_lam=False
    ),
    "1cfc5b744b6f": RunConfig(dataset="arrows", network="perceptron", seed=7, clip=None, share=0.1),
    "7e83a410d358": RunConfig(dataset="svhn-resplit", layers=2, seed=3),
    "0acdee5fac8e": RunConfig(dataset="svhn-resplit", layers=2, neuron="implicit", seed=3),
    "e8027893a231": RunConfig(
        dataset="cifar10",
        layers=3,
        channels=8,
        neuron="implicit",
        bounded=False,
        learn_slope=True,
        coupling="layer",
    ),
    "9700ffb113fc": RunConfig(
        dataset="fashion-mnist",
        neuron="implicit",
        coupling="window",
        window=7,
        window_profile="gaussian",
        learn_window=True,
    ),
    "9e8304b5395c": RunConfig(
        dataset="moons",
        network="perceptron",
        hidden=5,
        neuron="implicit",
        lam=-1,
        learn_lam=False,
        slope=3,
        sigma="erf",
    ),
    "bea86030d873": RunConfig(
        dataset="svhn",
        layers=2,
        neuron="implicit",
        lam=(0.01, 0.02),
        solver="picard",
        adjoint="jfb",
        max_steps=9,
        atol=1e-4,
        rtol=0,
    ),
    "b30e81f02c9a": RunConfig(
        dataset="fashion-mnist",
        adversarial_eps=0.1,
        adversarial_norm="l2",
        label_noise=0.2,
        hold_out=0.1,
    ),
}


@pytest.mark.parametrize("identity", STORED)
def test_identities_stay_what_they_were(identity):
    assert STORED[identity].identity() == identity


def test_what_cannot_change_the_result_does_not_change_the_name():
    standard = RunConfig(dataset="digits")
    assert standard.replace(lam=-0.5, slope=3.0, coupling="layer").identity() == standard.identity()
    assert standard.replace(hidden=9).identity() == standard.identity()
    plane = RunConfig(dataset="moons", network="perceptron")
    assert plane.replace(layers=3, channels=8).identity() == plane.identity()
    assert plane.replace(hidden=9).identity() != plane.identity()
    adamw = standard.replace(optimizer="adamw")
    assert adamw.replace(momentum=0.5).identity() == adamw.identity()
    assert standard.replace(momentum=0.5).identity() != standard.identity()


@pytest.mark.parametrize(
    "change",
    [{"seed": 1}, {"lam": 0.05}, {"epochs": 79}, {"share": 0.5}, {"slope": 9.0}, {"clip": None}],
)
def test_what_changes_the_result_changes_the_name(change):
    config = RunConfig(dataset="digits", neuron="implicit")
    assert config.replace(**change).identity() != config.identity()


def test_numbers_that_are_equal_name_the_same_run():
    one = RunConfig(dataset="digits", neuron="implicit", lam=1, clip=1, epochs=5)
    other = RunConfig(dataset="digits", neuron="implicit", lam=1.0, clip=1.0, epochs=5.0)  # type: ignore
    assert one.identity() == other.identity()
    assert RunConfig(dataset="a", neuron="implicit", lam=-0.0).identity() == (
        RunConfig(dataset="a", neuron="implicit").identity()
    )


@given(
    st.builds(
        RunConfig,
        dataset=st.text(min_size=1),
        lam=st.floats(-2, 2),
        seed=st.integers(0, 10**9),
        clip=st.none() | st.floats(0.1, 10),
        neuron=st.sampled_from(["standard", "implicit"]),
    )
)
def test_json_and_back_is_the_same_run(config):
    assert RunConfig.from_json(config.to_json()) == config
    assert RunConfig.from_json(config.to_json()).identity() == config.identity()


def test_one_lam_per_layer_survives_json():
    config = RunConfig(dataset="svhn", layers=2, neuron="implicit", lam=(0.01, 0.02))
    assert RunConfig.from_json(config.to_json()).lam == (0.01, 0.02)


def test_an_unknown_key_is_named_with_its_nearest_neighbour():
    text = json.dumps({"dataset": "digits", "epoch": 3})
    with pytest.raises(ConfigError, match="unknown config key 'epoch', did you mean 'epochs'"):
        RunConfig.from_json(text)
    with pytest.raises(ConfigError, match="unknown config key 'lamda', did you mean 'lam'"):
        RunConfig(dataset="digits").replace(lamda=1)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"weight_decay": -1}, "weight_decay is -1.0, expected 0 or more"),
        ({"share": 0}, "share is 0.0, expected a number in (0, 1]"),
        ({"epochs": "many"}, "epochs is 'many', expected int"),
        ({"epochs": 2.5}, "epochs is 2.5, expected int"),
        ({"epochs": True}, "epochs is True, expected int"),
        ({"learn_lam": 1}, "learn_lam is 1, expected bool"),
        ({"lam": float("nan")}, "lam holds nan, expected a finite number"),
        ({"lam": (0.1, 0.2), "layers": 3}, "lam is (0.1, 0.2), expected one value or 3"),
        ({"coupling": "window"}, "window is 0, expected the side of the window, at least 1"),
        ({"seed": -1}, "seed is -1, expected 0 or more"),
        ({"lr_low": 0.1}, "lr_low is 0.1, expected at most lr_high, which is 0.01"),
    ],
)
def test_a_wrong_value_is_named_with_what_was_expected(values, message):
    with pytest.raises(ConfigError) as caught:
        RunConfig.from_dict({"dataset": "digits", **values})
    assert str(caught.value) == message


@pytest.mark.parametrize("name", ["neuron", "network"])
def test_an_unknown_kind_is_named_with_the_known_ones(name):
    with pytest.raises(ConfigError) as caught:
        RunConfig.from_dict({"dataset": "digits", name: "spiking"})
    known = {"neuron": neuron_names(), "network": network_names()}[name]
    assert str(caught.value) == f"{name} is 'spiking', expected one of {', '.join(known)}"


def test_a_control_is_named_by_the_settings_it_uses():
    gain = RunConfig(dataset="digits", neuron="gain")
    assert gain.replace(lam=-0.2).identity() != gain.identity()
    assert gain.replace(coupling="layer", sigma="erf", solver="picard").identity() == (
        gain.identity()
    )
    plain = RunConfig(dataset="digits", neuron="instance-norm")
    assert plain.replace(lam=-0.2, slope=3.0, bounded=False).identity() == plain.identity()
    assert plain.identity() != RunConfig(dataset="digits").identity()


@pytest.mark.parametrize(
    ("name", "wrong", "meant"),
    [("sigma", "tahn", "tanh"), ("solver", "newtn", "newton"), ("adjoint", "jbf", "jfb")],
)
def test_a_misspelt_part_of_the_neuron_names_no_run(name, wrong, meant):
    with pytest.raises(ConfigError) as caught:
        RunConfig.from_dict({"dataset": "digits", name: wrong})
    message = str(caught.value)
    assert message.startswith(f"{name} is {wrong!r}, expected one of ")
    assert message.endswith(f"; did you mean {meant!r}?")
    assert "\n" not in message


def test_the_adjoints_of_a_run_are_those_of_the_neuron():
    with pytest.raises(ValueError, match=re.escape(str(CHOICES["adjoint"]))):
        ibnn.implicit_bias(torch.zeros(1, 2), 0.1, adjoint="no-such-adjoint")


def test_a_registered_sigma_names_a_run():
    sigma.register(sigma.Peaked(0.25, "quarter-peaked"))
    own = RunConfig(dataset="digits", neuron="implicit", sigma="quarter-peaked")
    assert own.identity() != own.replace(sigma="peaked").identity()


@pytest.mark.parametrize("text", ["{", "[1]", "{}"])
def test_what_is_no_config_is_refused(text):
    with pytest.raises(ConfigError, match="config"):
        RunConfig.from_json(text)


def test_the_title_is_for_people():
    config = RunConfig(dataset="svhn", layers=2, neuron="implicit", lam=-0.2, learn_lam=False)
    assert config.title() == "svhn UCN(2,3) implicit lam -0.2 seed 0"
    decayed = RunConfig(dataset="svhn", neuron="instance-norm", weight_decay=5e-4)
    assert decayed.title() == "svhn UCN(1,3) instance-norm weight decay 0.0005 seed 0"
    assert RunConfig(dataset="moons", network="perceptron", neuron="gain").title() == (
        "moons perceptron(3) gain lam learnt from 0 seed 0"
    )
