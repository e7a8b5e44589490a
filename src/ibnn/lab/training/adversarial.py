"""The inner loop of adversarial training: each batch is moved to where it hurts, then learnt from.

Projected gradient ascent (Madry et al.) with step size 2.5 eps / steps from a random point of the
ball. It runs in `eval` mode, so that the running statistics of batch norms see an image once, as
it is learnt, and no image's perturbation depends on the rest of its batch. The attacks that judge
a finished network are stronger and live in `ibnn.lab.attacks`: they keep the worst image of all
steps and restarts. Both move in the same ball (`ibnn.lab.training.ball`).
"""

import torch
from torch import Tensor, nn

from ibnn.lab.training.ball import Norm, project
from ibnn.lab.training.config import RunConfig
from ibnn.lab.training.objective import loss_of
from ibnn.lab.training.seeds import generator


def adversarial_examples(
    config: RunConfig, network: nn.Module, x: Tensor, y: Tensor, at: tuple[int, int]
) -> Tensor:
    """The batch to learn from: `x` itself, or what the config's attack makes of it.

    `at` is the epoch and the batch: with the seed they settle the random start, so that a resumed
    run draws what a whole one would have drawn.
    """
    if not config.adversarial_eps:
        return x
    epoch, batch = at
    random = generator(config.seed, f"adversarial start, epoch {epoch}", batch)
    was_training = network.training
    network.eval()
    try:
        return ascend(
            network,
            x,
            y,
            config.adversarial_eps,
            config.adversarial_steps,
            "linf" if config.adversarial_norm == "linf" else "l2",
            random,
        )
    finally:
        network.train(was_training)


def ascend(
    network: nn.Module,
    x: Tensor,
    y: Tensor,
    eps: float,
    steps: int,
    norm: Norm,
    random: torch.Generator,
) -> Tensor:
    """`x` moved uphill within `eps` of where it was; images also stay in [0, 1]."""
    box = x.ndim > 2  # points in the plane have no natural range
    moved = project(norm, x, x + _start(x, eps, norm, random), eps, box)
    for _ in range(steps):
        moved.requires_grad_()
        loss = loss_of(network(moved), y, reduction="sum")
        (gradient,) = torch.autograd.grad(loss, moved)
        step = gradient.sign() if norm == "linf" else gradient / _length(gradient)
        moved = project(norm, x, moved.detach() + 2.5 * eps / steps * step, eps, box)
    return moved


def _start(x: Tensor, eps: float, norm: Norm, random: torch.Generator) -> Tensor:
    """Uniform in the cube; in the ball a uniform direction and a uniform length.

    Drawn in float32 on the processor whatever dtype and device: one stream for all.
    """
    if norm == "linf":
        return eps * (2 * torch.rand(x.shape, generator=random) - 1).to(x)
    direction = torch.randn(x.shape, generator=random)
    length = torch.rand(len(x), *[1] * (x.ndim - 1), generator=random)
    return (eps * length * direction / _length(direction)).to(x)


def _length(change: Tensor) -> Tensor:
    """l_2 norm of every example, never zero."""
    dims = tuple(range(1, change.ndim))
    length = torch.linalg.vector_norm(change, dim=dims, keepdim=True)
    return length.clamp(min=torch.finfo(change.dtype).tiny)
