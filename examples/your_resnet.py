"""Swap the layers of your own ResNet: convert it, train it, save it, get it back.

    python examples/your_resnet.py

A residual network of a few blocks learns to tell stripes by their direction, first with standard
neurons, then with the implicit bias added to every convolution and lam learnt.
"""

import argparse
import tempfile

import torch
from torch import Tensor, nn
from torch.nn import functional

import ibnn


class Block(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)])

    def forward(self, x: Tensor) -> Tensor:
        h = functional.relu(self.norms[0](self.first(x)))
        return functional.relu(x + self.norms[1](self.second(h)))


def resnet(channels: int = 8, blocks: int = 2) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, channels, 3, padding=1),
        *(Block(channels) for _ in range(blocks)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(channels, 2),
    )


def stripes(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Noisy stripes of 12 x 12 pixels, upright (0) or lying (1)."""
    label = torch.randint(2, (count,), generator=generator)
    wave = torch.sin(torch.arange(12.0) + 6.28 * torch.rand(count, 1, generator=generator))
    upright = wave[:, None, :].expand(count, 12, 12)
    image = torch.where(label[:, None, None] == 0, upright, upright.transpose(1, 2))
    noise = torch.randn(count, 12, 12, generator=generator)
    return (image + noise).unsqueeze(1), label


def train(model: nn.Module, steps: int, generator: torch.Generator) -> float:
    """Trains with AdamW; the accuracy on fresh images."""
    # no weight decay on lam, which would pull the neuron back to a standard one
    groups = ibnn.parameter_groups(model, lr=0.01, weight_decay=0.01, lam_lr=0.003)
    optimizer = torch.optim.AdamW(groups)
    model.train()
    for _ in range(steps):
        x, label = stripes(64, generator)
        optimizer.zero_grad()
        functional.cross_entropy(model(x), label).backward()
        optimizer.step()
    model.eval()
    x, label = stripes(500, generator)
    with torch.no_grad():
        return float((model(x).argmax(1) == label).float().mean())


def main(steps: int) -> None:
    torch.manual_seed(0)
    standard = resnet()
    implicit = ibnn.convert(standard, lam=-0.05, learn_lam=True)
    print(implicit.conversion)

    for name, model in (("standard", standard), ("implicit", implicit)):
        accuracy = train(model, steps, torch.Generator().manual_seed(1))
        print(f"{name}: accuracy {100 * accuracy:.1f} % after {steps} steps")
    for name, layer in implicit.named_modules():
        if isinstance(layer, ibnn.ImplicitLayer):
            print(f"  {name}: lam {layer.effective_lam.item():+.3f}")

    folder = ibnn.save(implicit, tempfile.mkdtemp())
    again = ibnn.load(folder, resnet()).eval()
    x, _ = stripes(4, torch.Generator().manual_seed(2))
    print("back from its folder, the same to the last bit:", torch.equal(again(x), implicit(x)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Swap the layers of your own ResNet.")
    parser.add_argument("--steps", type=int, default=60, help="training steps of each network")
    main(parser.parse_args().steps)
