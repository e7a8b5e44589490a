"""What attacks climb, and the gradient of it: cross-entropy, margin, and the DLR losses.

Every loss grows as the image gets worse for the model, one value per image. Margin and DLR are
above 0 exactly where the answer is wrong.
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LossName = Literal["ce", "margin", "dlr"]
Loss = Callable[[Tensor, Tensor], Tensor]
# model, images, labels, loss -> logits, loss and the direction to go, per image
Climb = Callable[[nn.Module, Tensor, Tensor, Loss], tuple[Tensor, Tensor, Tensor]]

_TINY = 1e-12


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(logits, y, reduction="none")


def margin(logits: Tensor, y: Tensor) -> Tensor:
    """The best other logit minus the true one."""
    true = logits.gather(1, y[:, None]).squeeze(1)
    return logits.scatter(1, y[:, None], -torch.inf).amax(1) - true


def dlr(logits: Tensor, y: Tensor) -> Tensor:
    """Difference of logits ratio (Croce & Hein 2020): the margin over pi_1 - pi_3.

    It does not change when logits are scaled, so a saturated softmax hides nothing from it. Two
    classes have no third logit: the margin itself.
    """
    if logits.shape[1] < 3:
        return margin(logits, y)
    top = logits.topk(3, dim=1).values
    return margin(logits, y) / (top[:, 0] - top[:, 2] + _TINY)


def targeted_dlr(target: Tensor) -> Loss:
    """(z_t - z_y) / (pi_1 - (pi_3 + pi_4) / 2), for one target class per image."""

    def loss(logits: Tensor, y: Tensor) -> Tensor:
        gain = (logits.gather(1, target[:, None]) - logits.gather(1, y[:, None])).squeeze(1)
        if logits.shape[1] < 3:
            return gain
        top = logits.topk(min(4, logits.shape[1]), dim=1).values
        return gain / (top[:, 0] - top[:, 2:].mean(1) + _TINY)

    return loss


LOSSES: dict[str, Loss] = {"ce": cross_entropy, "margin": margin, "dlr": dlr}


def slope(value: Tensor, leaf: Tensor, again: bool = False) -> Tensor:
    """The gradient of a number in `leaf`, by ordinary autograd; `again`: another one will follow.

    It is 0 where the value does not depend on the leaf (a model that answers with bare labels) or
    where it is no number (a broken model): the attack stands still instead of losing the image.
    """
    if not value.requires_grad:
        return torch.zeros_like(leaf)
    (found,) = torch.autograd.grad(value, leaf, retain_graph=again, allow_unused=True)
    return torch.zeros_like(leaf) if found is None else found.nan_to_num(0.0, 0.0, 0.0)


def climb(model: nn.Module, images: Tensor, y: Tensor, loss: Loss) -> tuple[Tensor, Tensor, Tensor]:
    """Logits, loss and its gradient in the images, per image; the graph ends here."""
    with torch.enable_grad():
        leaf = images.detach().requires_grad_()
        logits = model(leaf)
        values = loss(logits, y)
        gradient = slope(values.sum(), leaf)
    return logits.detach(), values.detach(), gradient
