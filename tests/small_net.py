"""A small network with one of each kind of layer that conversion meets."""

from typing import Any

from torch import Tensor, nn


class Scaled(nn.Conv2d):
    """A user's subclass: state and methods of its own, the parent's forward."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.note = "mine"

    def channels(self) -> int:
        return self.out_channels


class Doubled(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return 2 * super().forward(input)


class Halved(nn.Conv2d):
    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return super()._conv_forward(input, weight / 2, bias)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), Scaled(4, 3, 3, bias=False)
        )
        self.up = nn.ConvTranspose2d(3, 2, 2, stride=2)
        self.hidden = nn.Linear(32, 6)
        self.dropout = nn.Dropout(0.5)
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.up(self.features(x)).flatten(1)
        return self.head(self.dropout(self.hidden(x)))


CONVERTED = ("features.0", "features.3", "up", "hidden")
