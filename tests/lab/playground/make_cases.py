"""Writes cases.json: what the library answers, in float64, for the page's scripts to repeat.

python -m tests.lab.playground.make_cases
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import ibnn
from ibnn.lab.data.known.plane import arrow_outlines

CASES = Path(__file__).with_name("cases.json")
ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "linear": nn.Identity}


def neuron_case(units: int, lam: float, slope: float, std: float, random: torch.Generator):
    """One row: z, energy, eigenvalues of J, and gradients of `dot(weights, z)`."""
    y = std * torch.randn(units, dtype=torch.float64, generator=random)
    weights = torch.randn(units, dtype=torch.float64, generator=random)
    y_leaf, lam_leaf = y.clone().requires_grad_(), torch.tensor(lam, dtype=torch.float64)
    lam_leaf.requires_grad_()
    z = ibnn.implicit_bias(y_leaf, lam_leaf, slope, on_failure="raise")
    z.backward(weights)

    def residual(z: Tensor) -> Tensor:
        return ibnn.residual(z, y, lam, slope)

    jacobian = torch.autograd.functional.jacobian(residual, z.detach())
    assert isinstance(jacobian, Tensor)
    assert y_leaf.grad is not None
    assert lam_leaf.grad is not None
    return {
        "y": y.tolist(),
        "lam": lam,
        "slope": slope,
        "weights": weights.tolist(),
        "z": z.tolist(),
        "energy": ibnn.energy(z.detach(), y, lam, slope).item(),
        "eigenvalues": torch.linalg.eigvalsh(jacobian).tolist(),
        "y_gradient": y_leaf.grad.tolist(),
        "lam_gradient": lam_leaf.grad.item(),
    }


def network_case(
    units: int,
    layers: int,
    activation: str,
    lam: float | None,
    slope: float,
    random: torch.Generator,
) -> dict[str, Any]:
    """Loss and gradient of a whole network on 20 points; lam None is the standard neuron."""
    hidden: list[nn.Module] = []
    for i in range(layers):
        inputs = units if i else 2
        if lam is None:
            hidden.append(nn.Linear(inputs, units, dtype=torch.float64))
        else:
            options = {"lam": lam, "slope": slope, "bounded": False, "dtype": torch.float64}
            hidden.append(ibnn.Linear(inputs, units, **options))
        hidden.append(ACTIVATIONS[activation]())
    network = nn.Sequential(*hidden, nn.Linear(units, 1, dtype=torch.float64))
    affine = [layer for layer in network if isinstance(layer, nn.Linear)]
    weights = [parameter for layer in affine for parameter in (layer.weight, layer.bias)]
    with torch.no_grad():
        for parameter in weights:
            parameter.copy_(torch.randn(parameter.shape, dtype=torch.float64, generator=random))
    points = 2 * torch.rand(20, 2, dtype=torch.float64, generator=random) - 1
    labels = torch.arange(20) % 2
    logits = network(points).squeeze(1)
    loss = nn.functional.binary_cross_entropy_with_logits(logits, labels.double())
    loss.backward()
    own_lams = [layer.lam.grad.item() for layer in affine if isinstance(layer, ibnn.Linear)]
    return {
        "units": units,
        "layers": layers,
        "activation": activation,
        "lam": lam,
        "slope": slope,
        "parameters": torch.cat([p.detach().flatten() for p in weights]).tolist(),
        "points": points.flatten().tolist(),
        "labels": labels.tolist(),
        "logits": logits.tolist(),
        "loss": loss.item(),
        "gradient": torch.cat([p.grad.flatten() for p in weights]).tolist(),
        "lam_gradient": sum(own_lams),  # the page has one lam for all layers
    }


def make() -> dict[str, Any]:
    random = torch.Generator().manual_seed(0)
    # fractions of the threshold 1/slope where lam > 0, else lam itself
    neurons = [
        neuron_case(units, lam if lam < 0 else lam / slope, slope, std, random)
        for units in (1, 2, 3, 5, 8)
        for slope in (1.0, 10.0, 100.0)
        for lam in (-2.0, -0.5, -0.01, 0.0, 0.5, 0.95)
        for std in (0.03, 1.0)
    ]
    networks = [
        network_case(units, layers, activation, lam, slope, random)
        for units, layers, activation, lam, slope in (
            (3, 1, "relu", None, 10.0),
            (3, 1, "relu", -1.0, 10.0),
            (3, 1, "relu", 0.09, 10.0),
            (4, 1, "sigmoid", -0.3, 30.0),
            (8, 2, "tanh", 0.2, 3.0),
            (5, 3, "tanh", -0.5, 10.0),
            (2, 2, "linear", 0.01, 50.0),
        )
    ]
    outlines = [corners.tolist() for corners in arrow_outlines()]
    return {"neurons": neurons, "networks": networks, "arrow_outlines": outlines}


if __name__ == "__main__":
    CASES.write_text(json.dumps(make(), indent=None, separators=(",", ":")) + "\n")
    print(f"wrote {CASES.name}: {CASES.stat().st_size / 1e3:.0f} kB")
