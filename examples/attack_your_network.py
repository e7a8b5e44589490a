"""Adversarial evaluation of your own network: strong attacks, and whether to believe them.

    python examples/attack_your_network.py

A small convolutional network learns scikit-learn's digits, once with standard neurons and once with
the implicit bias at lam = -0.2; both face the same attacks with their own exact gradients. Needs
the laboratory: pip install ".[lab]" in a clone.
"""

import argparse

import torch
from torch import nn
from torch.nn import functional

import ibnn
from ibnn.lab import data
from ibnn.lab.attacks import evaluate


def network() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 64, 10)
    )


def train(model: nn.Module, images: data.Dataset, epochs: int) -> None:
    optimizer = torch.optim.AdamW(ibnn.parameter_groups(model, lr=0.01))
    for epoch in range(epochs):
        order = torch.Generator().manual_seed(epoch)
        for x, y in data.batches(images.x_train, images.y_train, 64, order):
            optimizer.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            optimizer.step()


def main(
    epochs: int = 5, count: int = 100, eps: float = 0.1, attacks: str = "pgd,apgd-t,square"
) -> None:
    digits = data.load("digits")
    x, y = data.as_float(digits.x_test[:count]), digits.y_test[:count]
    torch.manual_seed(0)
    standard = network()
    implicit = ibnn.convert(standard, lam=-0.2)
    for name, model in (("standard", standard), ("lam = -0.2", implicit)):
        train(model, digits, epochs)
        model.eval()
        # eleven checks of whether the numbers can be believed come with it
        found = evaluate(model, x, y, eps=eps, attacks=attacks, quick=True)
        print(f"{name}: accuracy {100 * found.clean_accuracy:.0f} %")
        for row in found.rows:
            print(f"  {row.name}: {100 * row.robust_accuracy:.0f} % left")
        print(f"  all of them: {100 * found.robust_accuracy:.0f} % left at eps {eps:g}")
        print(f"  checks that failed: {', '.join(c.name for c in found.failed) or 'none'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Adversarial evaluation of your own network.")
    parser.add_argument("--epochs", type=int, default=5, help="training epochs of each network")
    parser.add_argument("--eps", type=float, default=0.1, help="largest change of a pixel (l_inf)")
    given = parser.parse_args()
    main(given.epochs, eps=given.eps)
