"""The implicit-bias neuron: z is the solution of an equation."""

import copy
from typing import Any

from torch import nn

import ibnn
from ibnn.lab.models.neurons.kind import Neuron, NeuronKind, lam_title


class Implicit(NeuronKind):
    name = "implicit"
    about = "z = y - lam sum_k w_ik sigma(p (z_k - z_i)), solved exactly: the paper's neuron"
    fields = (
        "lam",
        "learn_lam",
        "slope",
        "learn_slope",
        "bounded",
        "coupling",
        "window",
        "window_profile",
        "window_std",
        "learn_window",
        "sigma",
        "solver",
        "adjoint",
        "atol",
        "rtol",
        "max_steps",
    )

    def conv2d(
        self, neuron: Neuron, layer: int, in_channels: int, out_channels: int, kernel: int
    ) -> nn.Conv2d:
        keywords = implicit_keywords(neuron, self.first_lam(neuron, layer, out_channels))
        return ibnn.Conv2d(in_channels, out_channels, kernel, **keywords)

    def linear(self, neuron: Neuron, layer: int, in_features: int, out_features: int) -> nn.Linear:
        keywords = implicit_keywords(neuron, self.first_lam(neuron, layer, 1))
        return ibnn.Linear(in_features, out_features, **keywords)

    def title(self, config: Any) -> str:
        words = [self.name, lam_title(config)]
        words += ["slope learnt"] if config.learn_slope else []
        words += [config.coupling] if config.coupling != "space" else []
        return " ".join(words)


def implicit_keywords(neuron: Neuron, lam: float | list[float]) -> dict[str, Any]:
    """The keywords of an implicit layer with these settings and this lam to begin with."""
    keywords: dict[str, Any] = dict(
        lam=lam,
        slope=neuron.slope,
        learn_lam=neuron.learn_lam,
        learn_slope=neuron.learn_slope,
        bounded=neuron.bounded,
        sigma=neuron.sigma,
        **neuron.solve,
    )
    if neuron.coupling is not None:
        keywords["coupling"] = copy.deepcopy(neuron.coupling)
    return keywords
