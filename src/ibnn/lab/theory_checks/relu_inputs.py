"""What reaches the ReLUs of a network, wherever they are called from."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

_RELU = {torch.relu, torch.relu_, torch.nn.functional.relu, Tensor.relu, Tensor.relu_}


class ReluInputs(TorchFunctionMode):
    """Writes down the inputs of every ReLU that is called inside the block."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: list[Tensor] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if func in _RELU:
            self._seen.append(args[0].detach().clone())
        return func(*args, **(kwargs or {}))

    def values(self, examples: int) -> Tensor | None:
        """(examples, units) of all ReLUs together; None if there was none."""
        if not self._seen:
            return None
        return torch.cat([values.reshape(examples, -1) for values in self._seen], 1)


@torch.no_grad()
def calls_relu(network: nn.Module, x: Tensor) -> bool:
    """Whether the network calls a ReLU on its way from x.

    >>> calls_relu(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), torch.zeros(1, 2))
    True
    """
    with ReluInputs() as seen:
        network(x)
    return seen.values(len(x)) is not None
