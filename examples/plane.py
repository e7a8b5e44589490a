"""Two classes in the plane, three hidden neurons: the standard network and the implicit-bias one.

Run it with `python examples/plane.py`; the full experiment is `ibnn run boundary`.
"""

import torch
from torch import nn

import ibnn
from ibnn.lab import data


def train(hidden: nn.Linear, points: data.Dataset, epochs: int = 60) -> float:
    """Train hidden layer, batch normalization and output; the accuracy on fresh points."""
    network = nn.Sequential(hidden, nn.ReLU(), nn.BatchNorm1d(3), nn.Linear(3, 1))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    order = torch.Generator().manual_seed(0)
    for _ in range(epochs):
        for x, y in data.batches(points.x_train, points.y_train, 128, order):
            loss = nn.functional.binary_cross_entropy_with_logits(network(x)[:, 0], y.float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    network.eval()
    with torch.no_grad():
        return float(((network(points.x_test)[:, 0] > 0) == (points.y_test > 0)).float().mean())


def main(epochs: int = 60) -> None:
    """Both networks, from the same weights."""
    points = data.load("arrows")
    for name, lam in (("standard", None), ("lam = -0.5", -0.5)):
        torch.manual_seed(3)
        hidden = nn.Linear(2, 3) if lam is None else ibnn.Linear(2, 3, lam=lam, learn_lam=False)
        print(f"{name:12} {100 * train(hidden, points, epochs):.1f} % of fresh points are right")


if __name__ == "__main__":
    main()
