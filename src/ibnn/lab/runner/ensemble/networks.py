"""Many small perceptrons as one: every parameter has a leading dim of networks.

The implicit bias takes one lam and one slope per channel, and here a channel is a network: one
solve serves all of them. No number of one network enters another's.
"""

import warnings
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

import ibnn

LEARNT = (
    "hidden.weight",
    "hidden.bias",
    "norm.weight",
    "norm.bias",
    "head.weight",
    "head.bias",
)
COUNTED = ("norm.running_mean", "norm.running_var", "norm.num_batches_tracked")


class Ensemble:
    """Perceptrons of one shape with one output; `lam` and `slope` hold one number per network.

    `weights` and `momentum` are as in a checkpoint, one mapping per network; an empty momentum
    is a fresh optimizer.
    """

    def __init__(
        self,
        weights: Sequence[Mapping[str, Tensor]],
        momentum: Sequence[Mapping[str, Tensor]],
        lam: Sequence[float],
        slope: Sequence[float],
    ) -> None:
        first = weights[0]["hidden.weight"]
        self.lam = first.new_tensor(lam)
        self.slope = first.new_tensor(slope)
        self._warned = False
        stacked = {name: torch.stack([w[name] for w in weights]) for name in LEARNT + COUNTED}
        self.learnt = {name: stacked[name].requires_grad_() for name in LEARNT}
        self._counted = {name: stacked[name] for name in COUNTED}
        self._momentum = {
            name: torch.stack([m.get(name, torch.zeros_like(stacked[name][0])) for m in momentum])
            for name in LEARNT
        }

    def weights(self, number: int) -> dict[str, Tensor]:
        """The state dict of one network, without lam."""
        everything = self.learnt | self._counted
        return {name: tensor[number].detach().clone() for name, tensor in everything.items()}

    def momentum(self, number: int) -> dict[str, Tensor]:
        """The momentum of one network by parameter name."""
        return {name: tensor[number].clone() for name, tensor in self._momentum.items()}

    def __call__(
        self, x: Tensor, training: bool = False, forgets: float = 0.1
    ) -> tuple[Tensor, ibnn.Solution | None]:
        """Logits (examples, networks) of points (examples, networks, 2), and how z was found.

        In training, `forgets` is the weight of this batch in the statistics of batch norm.
        """
        learnt, counted = self.learnt, self._counted
        z = (x.unsqueeze(2) * learnt["hidden.weight"]).sum(-1) + learnt["hidden.bias"]
        solution = None
        if bool(self.lam.any()):
            solution = ibnn.solve(z, self.lam, self.slope, on_failure="ignore")
            z = solution.value
            self._warn_once(solution)
        if training:
            counted["norm.num_batches_tracked"] += 1
        normed = F.batch_norm(
            torch.relu(z).flatten(1),
            counted["norm.running_mean"].view(-1),
            counted["norm.running_var"].view(-1),
            learnt["norm.weight"].view(-1),
            learnt["norm.bias"].view(-1),
            training,
            forgets,
        ).view_as(z)
        head, bias = learnt["head.weight"].squeeze(1), learnt["head.bias"].squeeze(1)
        return (normed * head).sum(-1) + bias, solution

    def _warn_once(self, solution: ibnn.Solution) -> None:
        """Of rows that are finite and not solved; the others show in their network's loss."""
        failed = int((~solution.converged & solution.residual.isfinite()).sum())
        if failed and not self._warned:
            self._warned = True
            text = f"{failed} of {solution.converged.numel()} rows did not converge"
            warnings.warn(f"implicit bias: {text}", ibnn.ConvergenceWarning, stacklevel=3)

    def step(self, loss: Tensor, rate: float, momentum: float, clip: float | None) -> None:
        """One step of SGD on the sum of the losses: each network sees its own gradient only."""
        parameters = list(self.learnt.values())
        grads = torch.autograd.grad(loss.sum(), parameters)
        with torch.no_grad():
            if clip is not None:
                norm = torch.stack([g.flatten(1).norm(dim=1) for g in grads]).norm(dim=0)
                factor = (clip / (norm + 1e-6)).clamp(max=1.0)  # as nn.utils.clip_grad_norm_
                grads = [g * factor.view(-1, *[1] * (g.ndim - 1)) for g in grads]
            for (name, parameter), grad in zip(self.learnt.items(), grads, strict=True):
                parameter.add_(self._momentum[name].mul_(momentum).add_(grad), alpha=-rate)


def losses(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of each example and network; both arguments are (examples, networks)."""
    target = labels.to(logits.dtype)
    return F.binary_cross_entropy_with_logits(logits, target, reduction="none")
