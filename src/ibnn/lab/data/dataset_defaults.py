"""What a dataset is by default: its network, the attack it is shown, how much of it is trained."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class CpuPreset:
    """How much of a dataset preset `cpu` trains on: half an hour an experiment, on two cores.

    Args:
        epochs: of every run.
        n_train: only the first training images; None takes all.
        n_test: only the first test images; None takes all.
        fractions: of the training data, on the x axis of `data-fraction`.
        wrong_labels: fractions of wrong labels, on the x axis of `memorization`.
        widths: channels, on the x axis of `expressivity`.
    """

    epochs: int = 20
    n_train: int | None = 10_000
    n_test: int | None = 5_000
    fractions: tuple[float, ...] = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
    wrong_labels: tuple[float, ...] = (0.0, 0.2, 0.4, 0.6)
    widths: tuple[int, ...] = (1, 2, 3, 4, 6)


@dataclass(frozen=True, kw_only=True)
class Defaults:
    """What experiments use of a dataset unless they are told otherwise.

    Args:
        image_shape: of one example; None if that is known only once it is read.
        layers, channels: the network UCN(layers, channels) all its experiments gravitate around.
        widths: channels of the `expressivity` experiment, as published.
        learning_speed_channels: of the published learning-speed figure, where it has others.
        largest_eps: of the security curves, in l_inf.
        transfer_eps: of the attack on converted networks, in l_inf.
        cpu: how much of it preset `cpu` uses.
        group: `ibnn run all` uses one dataset of each group, the first that is here.
        expensive: `ibnn run all --preset cpu` runs only its cheaper experiments, and the controls
            only those that matter most.
        text: whether it is text, for language models.
        stands_in: a sentence for reports, where it takes the place of another dataset.
    """

    image_shape: tuple[int, ...] | None = None
    layers: int = 1
    channels: int = 3
    widths: tuple[int, ...] = (1, 2, 3, 4, 6, 8)
    learning_speed_channels: int | None = None
    largest_eps: float = 0.03
    transfer_eps: float = 0.008
    cpu: CpuPreset = CpuPreset()
    group: str | None = None
    expensive: bool = False
    stands_in: str = ""
    text: bool = False


# The published networks: UCN(1,3) for gray images, UCN(2,3) for the smaller of the color ones.
GRAY = Defaults(largest_eps=0.1, transfer_eps=0.02)
COLOR = Defaults(
    layers=2,
    cpu=CpuPreset(
        n_test=3_000,
        fractions=(0.1, 0.2, 0.4, 0.7, 1.0),
        wrong_labels=(0.0, 0.4),
        widths=(1, 2, 3),
    ),
)
_USUAL_PIXELS = 32 * 32


def from_shape(image_shape: Sequence[int]) -> Defaults:
    """The defaults of a dataset nobody has described, from the shape of one example.

    Gray images get what Fashion-MNIST has, color images what SVHN has; preset `cpu` takes fewer
    of images larger than 32 x 32, in proportion to their pixels.

    >>> from_shape((3, 64, 64)).layers, from_shape((3, 64, 64)).cpu.n_train
    (2, 2500)
    """
    shape = tuple(image_shape)
    usual = COLOR if len(shape) == 3 and shape[0] > 1 else GRAY
    scale = min(1.0, _USUAL_PIXELS / math.prod(shape[-2:])) if len(shape) == 3 else 1.0
    assert usual.cpu.n_train is not None
    assert usual.cpu.n_test is not None
    cpu = replace(
        usual.cpu,
        n_train=math.ceil(scale * usual.cpu.n_train),
        n_test=math.ceil(scale * usual.cpu.n_test),
    )
    return replace(usual, image_shape=shape, cpu=cpu)
