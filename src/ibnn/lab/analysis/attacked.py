"""A network with one neuron too many, solved exactly: what a stealth attack changes.

s_a(x) = sum_i c_i v_i + c_a v_a, where all D + 1 units feel each other. Nothing is approximated:
the added unit moves every z_i. `kept=True` keeps the weight 1/D between D + 1 units, as the paper
writes; `kept=False` makes it 1/(D + 1).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

import ibnn
from ibnn.lab.analysis.one_hidden import OneHidden
from ibnn.theory import lipschitz_constant


@dataclass(frozen=True)
class Neuron:
    """Added neurons, one per trigger: filters (T, inputs), biases (T,), output weights (T,)."""

    weight: Tensor
    bias: Tensor
    out: Tensor

    def to(self, dtype: torch.dtype) -> Neuron:
        return Neuron(self.weight.to(dtype), self.bias.to(dtype), self.out.to(dtype))


@dataclass(frozen=True)
class Victim:
    """The weights of a trained network, read once. lam None is the standard neuron."""

    weight: Tensor
    bias: Tensor
    head: Tensor
    offset: Tensor
    lam: float | None
    slope: float
    sigma: str | ibnn.Sigma
    kept: bool = True

    @classmethod
    def of(cls, network: OneHidden, kept: bool = True) -> Victim:
        hidden, head = network.hidden, network.head
        implicit = isinstance(hidden, ibnn.Linear)
        return cls(
            hidden.weight.detach(),
            hidden.bias.detach(),
            head.weight.detach()[0],
            head.bias.detach()[0],
            float(hidden.effective_lam) if implicit else None,
            float(hidden.effective_slope) if implicit else 0.0,
            hidden.sigma if implicit else "tanh",
            kept,
        )

    @property
    def units(self) -> int:
        return len(self.bias)

    def double(self) -> Victim:
        names = ("weight", "bias", "head", "offset")
        return replace(self, **{name: getattr(self, name).double() for name in names})

    def score(self, x: Tensor) -> Tensor:
        """s(x), as the network computes it."""
        return torch.relu(self._solve(self._affine(x), 1.0)) @ self.head + self.offset

    def hidden(self, x: Tensor, neuron: Neuron) -> Tensor:
        """z of all D + 1 units, the added one last: x (T or 1, n, inputs) -> (T, n, D + 1)."""
        own = self._affine(x)
        added = torch.einsum("tni,ti->tn", x.expand(len(neuron.bias), *x.shape[1:]), neuron.weight)
        added = added + neuron.bias.unsqueeze(1)
        y = torch.cat([own.expand(*added.shape, -1), added.unsqueeze(-1)], dim=-1)
        return self._solve(y, (self.units + 1) / self.units if self.kept else 1.0)

    def change(self, x: Tensor, neuron: Neuron) -> Tensor:
        """s_a(x) - s(x) for every trigger's network and every x: (T, n)."""
        v = torch.relu(self.hidden(x, neuron))
        before = torch.relu(self._solve(self._affine(x), 1.0))
        return (v[..., :-1] - before) @ self.head + neuron.out.unsqueeze(1) * v[..., -1]

    def aimed(self, trigger: Tensor, gain: Tensor, neuron: Neuron) -> Neuron:
        """The neuron with the output weight that makes s_a - s = gain at its trigger, exactly.

        z does not depend on the output weights, so s_a is linear in c_a. Where the added unit is
        silent at its trigger no weight can do it: the weight is zero and the attack has failed.
        """
        z = self.hidden(trigger.unsqueeze(1), neuron)[:, 0]
        before = torch.relu(self._solve(self._affine(trigger), 1.0))
        own = (torch.relu(z[:, :-1]) - before) @ self.head
        active = z[:, -1] > 0
        out = (gain - own) / torch.where(active, z[:, -1], 1.0)
        return replace(neuron, out=torch.where(active, out, 0.0))

    def leak_bound(self) -> float:
        """The largest change of any score while the added unit is silent.

        What the D units feel of it is |lam|/D at most (|lam| 2/(D + 1) with the other weights), and
        F does not stretch differences: by 1 in the maximum norm for lam <= 0, by 1/(1 - lam p) in
        l_2 above. ReLU neither.
        """
        if self.lam is None:
            return 0.0
        units, size = self.units, abs(self.lam)
        felt = size / units if self.kept else 2 * size / (units + 1)
        if self.lam <= 0:
            return felt * float(self.head.abs().sum())
        stretch = lipschitz_constant(self.lam, self.slope, None, self.sigma)
        return felt * stretch * units**0.5 * float(self.head.norm())

    def _affine(self, x: Tensor) -> Tensor:
        return x @ self.weight.T + self.bias

    def _solve(self, y: Tensor, factor: float) -> Tensor:
        if self.lam is None:
            return y
        return ibnn.implicit_bias(y, factor * self.lam, self.slope, sigma=self.sigma)
