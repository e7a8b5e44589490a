"""The network of the 2-D figure."""

import pytest
import torch

from ibnn.lab.models import Perceptron


@pytest.mark.parametrize(("neuron", "expected"), [("standard", 19), ("implicit", 20)])
def test_three_hidden_units_and_one_output(neuron, expected):
    network = Perceptron(2, 3, 1, neuron)
    # 2 * 3 + 3 hidden, 3 + 3 batch norm, 3 + 1 head, and lam
    assert sum(p.numel() for p in network.parameters()) == expected
    assert network(torch.rand(7, 2)).shape == (7, 1)


def test_standard_weights_load_into_the_implicit_network():
    standard, implicit = Perceptron(), Perceptron(neuron="implicit")
    incompatible = implicit.load_state_dict(standard.state_dict(), strict=False)
    assert incompatible.missing_keys == ["hidden.lam"]
    assert not incompatible.unexpected_keys
    x = torch.rand(5, 2)
    assert torch.equal(standard.eval()(x), implicit.eval()(x))


def test_hidden_units_listen_to_each_other():
    def hidden(x: torch.Tensor) -> torch.Tensor:
        network = Perceptron(neuron="implicit", lam=-0.5, learn_lam=False)
        with torch.no_grad():
            network.hidden.weight.copy_(torch.eye(3, 2))
            network.hidden.bias.zero_()
        return network.hidden(x)

    moved = hidden(torch.tensor([[0.0, 0.4]])) - hidden(torch.tensor([[0.0, 0.2]]))
    assert moved[0, 0] > 0.01  # its own input did not change


def test_wrong_sizes_are_named():
    with pytest.raises(ValueError, match="hidden is 0, expected at least 1"):
        Perceptron(2, 0, 1)
