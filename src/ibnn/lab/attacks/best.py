"""The worst image found so far for each row of a batch, and what it cost."""

import torch
from torch import Tensor, nn

from ibnn.lab.attacks.attack import Attacked
from ibnn.lab.attacks.losses import Loss
from ibnn.lab.training.ball import Norm, distance


class Best:
    """Keeps, per image, a wrong one before a right one, and then the one of higher loss."""

    def __init__(self, x: Tensor):
        self.x = x
        self.images = x.clone()
        self.loss = torch.full((len(x),), -torch.inf, dtype=x.dtype, device=x.device)
        self.wrong = torch.zeros(len(x), dtype=torch.bool, device=x.device)
        self.queries = torch.zeros(len(x), dtype=torch.int64, device=x.device)

    def offer(self, rows: Tensor, images: Tensor, loss: Tensor, wrong: Tensor) -> Tensor:
        """One more query for each of `rows`; says which of them it improved."""
        self.queries[rows] += 1
        had = self.wrong[rows]
        better = (wrong & ~had) | ((wrong == had) & (loss > self.loss[rows]))
        at = rows[better]
        self.images[at], self.loss[at], self.wrong[at] = images[better], loss[better], wrong[better]
        return better

    def ask(self, model: nn.Module, y: Tensor, rows: Tensor, images: Tensor, loss: Loss) -> None:
        """Offer `images`, one for each of `rows`, with what the model says about them."""
        if len(rows):
            logits = model(images)
            self.offer(rows, images, loss(logits, y[rows]), logits.argmax(1) != y[rows])

    def rows(self, all_of_them: bool = False) -> Tensor:
        """The images still worth a query: those the model gets right."""
        return (~self.wrong | all_of_them).nonzero().squeeze(1)

    def result(self, norm: Norm) -> Attacked:
        far = distance(norm, self.images - self.x).to(self.x.dtype)
        return Attacked(self.images, self.wrong, far, self.queries)
