"""Groups of parameters for an optimizer: lam, slope and couplings apart from the weights."""

from typing import Any

from torch import nn

from ibnn._checks import check_at_least_0, check_module
from ibnn.nn.layer import ImplicitLayer

# with a parametrization, lam itself is what it computes
_OF_THE_NEURON = ("lam.", "slope.", "coupling.", "parametrizations.lam.", "parametrizations.slope.")


def parameter_groups(
    model: nn.Module, lr: float, weight_decay: float = 0.0, lam_lr: float | None = None
) -> list[dict[str, Any]]:
    """Two parameter groups for a torch optimizer: the weights, and the parameters of the neuron.

    Weight decay would pull lam to 0, a standard neuron, and slope to 0, none at all: the second
    group (lam, slope and the parameters of a coupling, e.g. the std of a `Window`) has none. All
    other parameters get `weight_decay`, including norms and biases, which some recipes exempt.
    Parameters that do not require gradients are in no group; an empty group is left out.

    Args:
        model: any module.
        lr: learning rate of the weights.
        weight_decay: of the weights.
        lam_lr: learning rate of the second group, `lr` by default.

    Examples:
        >>> import ibnn, torch
        >>> model = nn.Sequential(ibnn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> groups = parameter_groups(model, lr=0.1, weight_decay=1e-4, lam_lr=0.01)
        >>> [(group["name"], len(group["params"]), group["weight_decay"]) for group in groups]
        [('weights', 4, 0.0001), ('implicit bias', 1, 0.0)]
        >>> optimizer = torch.optim.AdamW(groups)
    """
    check_module(model)
    lam_lr = lr if lam_lr is None else lam_lr
    for name, value in (("lr", lr), ("weight_decay", weight_decay), ("lam_lr", lam_lr)):
        check_at_least_0(name, value)
    neuron = {
        parameter
        for layer in model.modules()
        if isinstance(layer, ImplicitLayer)
        for name, parameter in layer.named_parameters()
        if f"{name}.".startswith(_OF_THE_NEURON)
    }
    learnt = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {
            "name": "weights",
            "params": [parameter for parameter in learnt if parameter not in neuron],
            "lr": lr,
            "weight_decay": weight_decay,
        },
        {
            "name": "implicit bias",
            "params": [parameter for parameter in learnt if parameter in neuron],
            "lr": lam_lr,
            "weight_decay": 0.0,
        },
    ]
    return [group for group in groups if group["params"]]
