"""Standard augmentation of small images: a random shift and a random mirror image."""

import torch
from torch import Tensor
from torch.nn import functional as F

SHIFT = 4  # pixels, as everybody has it for CIFAR-10


def augmented(x: Tensor, kind: str, random: torch.Generator) -> Tensor:
    """The images of a batch as they are learnt from; `kind` is one of the config's.

    `crop-flip`: each image is padded with 4 zeros on every side (fewer where the image is smaller
    than 16 pixels: an eighth of it, at least 1), cut to its size at a random place, and mirrored
    left to right half of the time.
    """
    if kind == "none":
        return x
    count, channels, height, width = x.shape
    shift = max(1, min(SHIFT, height // 8, width // 8))
    # drawn on the processor whatever device: one stream for all
    top, left = (
        torch.randint(2 * shift + 1, (count, 1), generator=random).to(x.device) for _ in range(2)
    )
    mirror = (torch.rand(count, 1, generator=random) < 0.5).to(x.device)
    rows = top + torch.arange(height, device=x.device)
    columns = left + torch.arange(width, device=x.device)
    columns = torch.where(mirror, columns.flip(1), columns)
    padded = F.pad(x, (shift,) * 4)
    image = torch.arange(count, device=x.device)[:, None, None, None]
    channel = torch.arange(channels, device=x.device)[None, :, None, None]
    return padded[image, channel, rows[:, None, :, None], columns[:, None, None, :]]
