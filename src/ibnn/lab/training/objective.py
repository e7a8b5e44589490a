"""What is minimized and what is counted: cross-entropy and right answers, for both heads."""

from torch import Tensor
from torch.nn import functional as F


def loss_of(logits: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
    """Cross-entropy; a single output is the logit of the second of two classes."""
    if logits.shape[1] == 1:
        return F.binary_cross_entropy_with_logits(
            logits.squeeze(1), labels.to(logits.dtype), reduction=reduction
        )
    return F.cross_entropy(logits, labels, reduction=reduction)


def predict(logits: Tensor) -> Tensor:
    """The class each row of logits stands for."""
    if logits.shape[1] == 1:
        return (logits.squeeze(1) > 0).long()
    return logits.argmax(1)
