"""A network with one neuron too many, solved exactly: what a stealth attack changes.

s_a(x) = sum_i c_i v_i + c_a v_a, where all D + 1 units are coupled. Nothing is approximated:
the added unit moves every z_i. The weight between D + 1 units is 1/D, as the paper writes, or
`rescaled` to 1/(D + 1).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

import ibnn
from ibnn.lab.theory_checks.one_hidden import OneHidden
from ibnn.theory import lipschitz_constant


@dataclass(frozen=True)
class AddedNeuron:
    """Added neurons, one per trigger: filters (T, inputs), biases (T,), output weights (T,)."""

    weight: Tensor
    bias: Tensor
    out: Tensor

    def to(self, dtype: torch.dtype) -> AddedNeuron:
        return AddedNeuron(self.weight.to(dtype), self.bias.to(dtype), self.out.to(dtype))


@dataclass(frozen=True)
class Responses:
    """Inputs, the pre-activations y of the D own units, and their outputs without the attack."""

    x: Tensor
    y: Tensor
    before: Tensor


def aim(gain: Tensor, own: Tensor, added: Tensor) -> Tensor:
    """The output weight c_a with own + c_a ReLU(added) = gain.

    z does not depend on the output weights, so s_a is linear in c_a. Where the added unit is
    inactive at its trigger no weight can do it: the weight is zero and the attack has failed.
    """
    awake = added > 0
    return torch.where(awake, (gain - own) / torch.where(awake, added, 1.0), 0.0)


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
    rescaled: bool = False

    @classmethod
    def of(cls, network: OneHidden, rescaled: bool = False) -> Victim:
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
            rescaled,
        )

    @property
    def units(self) -> int:
        return len(self.bias)

    def double(self) -> Victim:
        names = ("weight", "bias", "head", "offset")
        return replace(self, **{name: getattr(self, name).double() for name in names})

    def score(self, x: Tensor) -> Tensor:
        """s(x), as the network computes it."""
        return self.score_of(self.respond(x))

    def score_of(self, seen: Responses) -> Tensor:
        """s(x) of these responses."""
        return seen.before @ self.head + self.offset

    def respond(self, x: Tensor) -> Responses:
        """What the network makes of inputs (..., inputs) before a neuron is added."""
        y = x @ self.weight.T + self.bias
        return Responses(x, y, torch.relu(self._solve(y, 1.0)))

    def attacked(self, seen: Responses, neuron: AddedNeuron) -> tuple[Tensor, Tensor]:
        """With the neuron added: what the D own units add to the score (T, n), and the z of the
        added one (T, n). `seen` holds the same n inputs for all triggers, or (T, n) of them."""
        shape = "ni,ti->tn" if seen.x.ndim == 2 else "tni,ti->tn"
        added = torch.einsum(shape, seen.x, neuron.weight)
        added = added + neuron.bias.unsqueeze(1)
        y = torch.cat([seen.y.expand(*added.shape, -1), added.unsqueeze(-1)], dim=-1)
        z = self._solve(y, 1.0 if self.rescaled else (self.units + 1) / self.units)
        return (torch.relu(z[..., :-1]) - seen.before) @ self.head, z[..., -1]

    def change(self, seen: Responses, neuron: AddedNeuron) -> Tensor:
        """s_a(x) - s(x) for every trigger's network and every x: (T, n)."""
        own, added = self.attacked(seen, neuron)
        return own + neuron.out.unsqueeze(1) * torch.relu(added)

    def aimed(self, triggers: Tensor, gain: Tensor, neuron: AddedNeuron) -> AddedNeuron:
        """The neuron with the output weight that makes s_a - s = gain at its trigger, exactly."""
        return self.aimed_at(self.respond(triggers.unsqueeze(1)), gain, neuron)

    def aimed_at(self, triggers: Responses, gain: Tensor, neuron: AddedNeuron) -> AddedNeuron:
        """The same for responses to the triggers."""
        own, added = self.attacked(triggers, neuron)
        return replace(neuron, out=aim(gain, own[:, 0], added[:, 0]))

    def leak_bound(self) -> float:
        """The largest change of any score while the added unit is inactive.

        It shifts the D units by |lam|/D at most (|lam| 2/(D + 1) with the other weights). F is
        Lipschitz, with constant 1 in the maximum norm for lam <= 0 and 1/(1 - lam p) in l_2 above;
        ReLU has constant 1.
        """
        if self.lam is None:
            return 0.0
        units, size = self.units, abs(self.lam)
        felt = 2 * size / (units + 1) if self.rescaled else size / units
        if self.lam <= 0:
            return felt * float(self.head.abs().sum())
        stretch = lipschitz_constant(self.lam, self.slope, None, self.sigma)
        return felt * stretch * units**0.5 * float(self.head.norm())

    def _solve(self, y: Tensor, factor: float) -> Tensor:
        if self.lam is None:
            return y
        exact = y.dtype == torch.float64 and not y.requires_grad
        solve = mixed_precision_solve if exact else ibnn.implicit_bias
        return solve(y, factor * self.lam, self.slope, sigma=self.sigma)


def mixed_precision_solve(
    y: Tensor, lam: float, slope: float = 10.0, *, sigma: str | ibnn.Sigma = "tanh"
) -> Tensor:
    """z of float64 rows y of uniform weights, without gradients.

    A float32 solve leaves an error e of some 1e-6. Its residual r is measured in float64, and the
    correction K_inf r need not be better than float32: what is left is 1e-6 of e from rounding and
    p e^2 from Newton's step. Measured: a fifth of the time of a float64 solve at 64 units.

    >>> y = torch.tensor([[0.3, -0.2, 0.1]], dtype=torch.float64)
    >>> float((mixed_precision_solve(y, -0.5) - ibnn.implicit_bias(y, -0.5)).abs().max()) < 1e-10
    True
    """
    y = y.detach()
    with torch.enable_grad():
        rounded = y.float().requires_grad_()
        rough = ibnn.implicit_bias(rounded, lam, slope, sigma=sigma)
    # y keeps the digits that float32 has no room for
    z = y + (rough.detach().double() - rounded.detach())
    residual = ibnn.residual(z, y, lam, slope, sigma=sigma)
    # K_inf is symmetric: the product of the backward pass is the one that is wanted
    (correction,) = torch.autograd.grad(rough, rounded, residual.float())
    return z - correction
