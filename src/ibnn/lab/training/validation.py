"""How good a network is now: accuracy, loss, and how its solver fared on the way."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ibnn.lab import data
from ibnn.lab.models import implicit_layers
from ibnn.lab.training.objective import loss_of, predict

BATCH = 500


@dataclass(frozen=True)
class Validation:
    """Accuracy and mean loss; bits per character are None but of text, the solver's figures None
    without implicit layers."""

    accuracy: float
    loss: float
    steps: float | None = None
    residual: float | None = None
    converged: float | None = None
    bits_per_character: float | None = None


@torch.no_grad()
def validate(network: nn.Module, x: Tensor, y: Tensor, batch_size: int = BATCH) -> Validation:
    """Accuracy and loss over a split, in `eval` mode; the mode before is restored."""
    layers = implicit_layers(network)
    dtype = next(network.parameters()).dtype
    right, loss, steps, residual, solved = 0, 0.0, 0.0, 0.0, 0.0
    was_training = network.training
    network.eval()
    for images, labels in data.batches(x, y, batch_size):
        logits = network(data.as_float(images, dtype))
        right += int((predict(logits) == labels).sum())
        loss += float(loss_of(logits, labels, reduction="sum"))
        for layer in layers:
            solve = layer.last_solve
            if solve is None:  # solver "lite" takes one step: nothing can fail to converge
                solved += len(images) / len(layers)
                continue
            steps = max(steps, float(solve.steps))
            residual = max(residual, float(solve.residual))
            solved += float(solve.converged) * len(images) / len(layers)
    network.train(was_training)
    accuracy, mean_loss = right / y.numel(), loss / y.numel()
    bits = mean_loss / math.log(2) if y.ndim > 1 else None
    if not layers:
        return Validation(accuracy, mean_loss, bits_per_character=bits)
    worst = residual if math.isfinite(residual) else None
    return Validation(accuracy, mean_loss, steps, worst, solved / len(x), bits)
