"""Every kind of neuron goes through the same training; so do kinds and networks from outside."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from ibnn.lab.models import (
    MapKind,
    NetworkKind,
    initialize,
    lam_layers,
    neuron_names,
    register_network,
    register_neuron,
)
from ibnn.lab.models import networks as network_registry
from ibnn.lab.models.neurons import kind as neuron_registry
from ibnn.lab.training import RunConfig, RunFolder, build_network, load_network, train
from tests.lab.training.tiny import DIGITS, images


@pytest.mark.parametrize("kind", neuron_names())
def test_every_kind_starts_from_the_warmed_up_standard_network(kind, tmp_path):
    config = DIGITS.replace(neuron=kind, epochs=1, warmup_epochs=1)
    train(config, tmp_path, dataset=images())
    lines = RunFolder(tmp_path, config.identity()).metrics()
    standard = DIGITS.replace(neuron="standard", epochs=1, warmup_epochs=1)
    train(standard, tmp_path, dataset=images())
    reference = RunFolder(tmp_path, standard.identity()).metrics()
    assert lines[0].stage == "warm-up"
    assert lines[0].loss == reference[0].loss
    # torch's local response norm divides by 1 + 1e-4 y^2: outputs this small come out unchanged
    # and with lam fixed at 0 nothing is added
    unchanged = kind in ("standard", "local-response-norm", "implicit-first-fixed")
    assert (lines[1].loss == reference[1].loss) == unchanged
    has_lam = kind.startswith("implicit") or kind in ("gain", "mean-field", "lite")
    assert len(lines[1].lam) == len(lines[1].slope) == has_lam
    # only the implicit one has something to solve
    assert (lines[1].converged is not None) == kind.startswith("implicit")


def test_lam_of_each_kind_starts_as_its_kind_says_to_the_last_digit():
    config = DIGITS.replace(layers=2, channels=3, lam=0.07, dtype="float64")
    lams = {
        kind: [
            layer.lam.tolist()
            for layer in lam_layers(build_network(config.replace(neuron=kind), (1, 8, 8), 3))
        ]
        for kind in ("implicit", "gain", "implicit-per-channel", "implicit-first-fixed")
    }
    assert lams["implicit"] == lams["gain"] == [0.07, 0.07]
    assert lams["implicit-per-channel"] == [[0.07, -0.07, 0.07]] * 2
    assert lams["implicit-first-fixed"] == [0.07, 0.0]


WINDOW = {"coupling": "window", "window": 3, "window_profile": "gaussian", "window_std": 1.0}
NEURONS_OWN = {"lam", "slope", "std"}


@pytest.mark.parametrize(
    ("settings", "spared"),
    [
        ({"neuron": "gain"}, {"lam"}),
        ({"neuron": "implicit", "learn_slope": True}, {"lam", "slope"}),
        ({"neuron": "implicit", **WINDOW, "learn_window": True}, {"lam", "std"}),
    ],
)
def test_weight_decay_shrinks_weights_and_spares_what_is_the_neurons_own(settings, spared):
    from ibnn.lab.training.optimizer import make_optimizer

    config = DIGITS.replace(**settings, lam=0.05, weight_decay=0.1)
    network = build_network(config, (1, 8, 8), 3)
    before = {name: value.detach().clone() for name, value in network.named_parameters()}
    assert {name.rpartition(".")[2] for name in before} & NEURONS_OWN == spared
    for parameter in network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    make_optimizer(config, network).step()
    for name, value in network.named_parameters():
        factor = 1.0 if name.rpartition(".")[2] in spared else 1 - config.lr_low * 0.1
        torch.testing.assert_close(value, factor * before[name])


def test_weight_decay_reaches_the_training(tmp_path):
    def trained(decay: float) -> dict[str, torch.Tensor]:
        config = DIGITS.replace(neuron="gain", warmup_epochs=0, lam=0.05, weight_decay=decay)
        train(config, tmp_path, dataset=images())
        return load_network(RunFolder(tmp_path, config.identity()).path).state_dict()

    plain, decayed = trained(0.0), trained(1.0)
    assert decayed["head.weight"].norm() < plain["head.weight"].norm()


class Twice(nn.Module):
    def forward(self, y):
        return 2 * y


class TwiceKind(MapKind):
    name = "twice"
    about = "z = 2 y"

    def then(self, neuron, layer, channels):
        return Twice()


class Slim(nn.Module):
    """One 3x3 convolution, the mean over space, a head."""

    def __init__(self, neuron, in_channels, channels, classes):
        super().__init__()
        self.conv = neuron.conv2d(0, in_channels, channels, 3)
        self.head = nn.Linear(channels, classes)

    def forward(self, x):
        return self.head(torch.relu(self.conv(x)).mean((2, 3)))


class SlimKind(NetworkKind):
    name = "slim"
    about = "one convolution and a mean"
    fields = ("channels",)

    def build(self, config, image_shape, classes, neuron, generator):
        network = Slim(neuron, image_shape[0], config.channels, classes)
        initialize(network, network.head, config.initialisation, generator)
        return network

    def title(self, config):
        return f"slim({config.channels})"


@pytest.fixture
def outsiders() -> Iterator[None]:
    """A kind and a network registered from outside the package, taken out again afterwards."""
    register_neuron(TwiceKind())
    register_network(SlimKind())
    yield
    del neuron_registry._KINDS["twice"], network_registry._KINDS["slim"]


def test_a_kind_and_a_network_from_outside_are_trained_like_our_own(outsiders, tmp_path):
    config = DIGITS.replace(network="slim", neuron="twice", channels=4, layers=7)
    result = train(config, tmp_path, dataset=images())
    assert result.title == "digits slim(4) twice seed 0"
    assert result.parameters == (9 * 4 + 4) + (4 * 3 + 3)
    # as the network says, only `channels` is a size of it
    assert config.replace(layers=1).identity() == config.identity()
    assert config.replace(channels=5).identity() != config.identity()
    network = load_network(RunFolder(tmp_path, config.identity()).path)
    assert isinstance(network, Slim)
    assert isinstance(network.conv.then, Twice)


def test_a_kind_that_is_not_registered_is_refused():
    with pytest.raises(ValueError, match="neuron is 'twice', expected one of standard"):
        RunConfig(dataset="digits", neuron="twice")
