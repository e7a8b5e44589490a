"""An explicit map with a lam of its own, learnt and bounded as the implicit neuron's."""

from typing import Any

import torch
from torch import Tensor, nn

from ibnn.lab.models.neurons.followed import MapKind
from ibnn.lab.models.neurons.kind import Neuron, lam_title
from ibnn.nn.bounds import FRACTION_OF_THRESHOLD, keep_below


class OwnLam(nn.Module):
    """Base of the maps with a lam. `effective_lam` is the value that is used: a learnt one acts as
    at most 0.95 / slope, 0.95 of the uniform neuron's threshold of uniqueness, unless not bounded.

    >>> OwnLam(lam=0.5).effective_lam
    tensor(0.0950, grad_fn=...)
    """

    lam: Tensor
    slope: Tensor

    def __init__(
        self, lam: float = 0.0, slope: float = 10.0, learn_lam: bool = True, bounded: bool = True
    ):
        super().__init__()
        if learn_lam:
            self.lam = nn.Parameter(torch.tensor(float(lam)))
        else:
            self.register_buffer("lam", torch.tensor(float(lam)))
        self.register_buffer("slope", torch.tensor(float(slope)), persistent=False)
        self.limited = learn_lam and bounded

    @property
    def effective_lam(self) -> Tensor:
        """The lam that is used."""
        return (
            keep_below(self.lam, FRACTION_OF_THRESHOLD / self.slope) if self.limited else self.lam
        )

    @property
    def effective_slope(self) -> Tensor:
        """The slope that is used: always the one chosen."""
        return self.slope

    def extra_repr(self) -> str:
        learnt = " (learnt)" if isinstance(self.lam, nn.Parameter) else ""
        return f"lam={float(self.lam.detach()):.4g}{learnt}, slope={float(self.slope):.4g}"


class OwnLamKind(MapKind):
    """A kind whose map, `makes`, is a subclass of `OwnLam`."""

    fields = ("lam", "learn_lam", "slope", "bounded")

    def then(self, neuron: Neuron, layer: int, channels: int) -> nn.Module:
        return self.makes(neuron.lam_of(layer), neuron.slope, neuron.learn_lam, neuron.bounded)

    def title(self, config: Any) -> str:
        return f"{self.name} {lam_title(config)}"
