"""Pixle against every patch of a tiny image, tried one by one."""

import itertools

import pytest
import torch
from torch import Tensor, nn

from ibnn.lab.attacks import Pixle
from tests.lab.attacks import exact


def goal_of(image: Tensor, row: int, column: int) -> tuple[int, int] | None:
    """Where a pixel goes, by the definition: the nearest in value that is neither it nor equal."""
    _, height, width = image.shape
    best, best_apart = None, float("inf")
    for there in itertools.product(range(height), range(width)):
        apart = float((image[:, there[0], there[1]] - image[:, row, column]).abs().mean())
        if there != (row, column) and 0 < apart < best_apart:
            best, best_apart = there, apart
    return best


def every_patch(image: Tensor, patch: int) -> list[Tensor]:
    """All images one patch can make of this one."""
    _, height, width = image.shape
    made = []
    for top, left in itertools.product(range(height), range(width)):
        copy = image.clone()
        for row in range(top, min(top + patch, height)):
            for column in range(left, min(left + patch, width)):
                goal = goal_of(image, row, column)
                if goal is not None:
                    copy[:, goal[0], goal[1]] = image[:, row, column]
        made.append(copy)
    return made


@pytest.mark.parametrize("levels", [4, 2**20])
@pytest.mark.parametrize(("channels", "patch"), [(1, 1), (1, 2), (3, 2), (2, 3)])
def test_one_restart_finds_the_worst_of_all_patches(channels, patch, levels):
    shape = (channels, 3, 4)
    model = exact.linear(shape, 3)
    # With few levels many pixels are equal, and those are passed over.
    x = (exact.images(model, 30, shape)[0] * levels).round() / levels
    y = model(x).argmax(1)
    # 12 patches drawn 250 times: one of them is missed with probability 12 (11/12)^250 = 4e-9.
    found = Pixle(restarts=1, iterations=250, patch=patch)(model, x, y)
    broken = 0
    for image, label, seen, success in zip(x, y, found.images, found.success, strict=True):
        made = torch.stack(every_patch(image, patch))
        with torch.no_grad():
            logits = model(made)
        wrong = logits.argmax(1) != label
        broken += int(wrong.any())
        assert bool(success) == bool(wrong.any())
        if success:
            assert any(torch.equal(seen, one) for one in made[wrong])
        else:
            doubt = -logits.log_softmax(1)[:, label]
            before = -model(image[None]).log_softmax(1)[0, label]
            expected = made[doubt.argmax()] if doubt.max() > before else image
            assert torch.equal(seen, expected)
    assert broken > 0


@pytest.mark.parametrize("mapping", ["similarity", "random"])
def test_restarts_add_patches_within_the_budget(mapping):
    shape = (3, 8, 8)
    model = exact.linear(shape, 3)
    x, y = exact.images(model, 50, shape)
    attack = Pixle(restarts=3, iterations=4, patch=2, mapping=mapping)
    found = attack(model, x, y)
    assert attack.budget == 12
    assert found.distance.max() <= 12
    assert (found.distance > 4).any()
    assert found.queries.max() == 1 + 3 * 4
    # Every value comes from the image itself, all channels together.
    for image, seen in zip(x, found.images, strict=True):
        pixels = {tuple(pixel) for pixel in image.flatten(1).T.tolist()}
        assert {tuple(pixel) for pixel in seen.flatten(1).T.tolist()} <= pixels
    more = Pixle(restarts=6, iterations=4, patch=2, mapping=mapping)(model, x, y)
    assert (more.success >= found.success).all()


def test_mirrored_writes_across_the_diagonal():
    class First(nn.Module):
        """Wrong as soon as anything changes."""

        def __init__(self, image: Tensor):
            super().__init__()
            self.register_buffer("image", image)

        def forward(self, x: Tensor) -> Tensor:
            changed = (x - self.image).flatten(1).abs().amax(1)
            return torch.stack([torch.full_like(changed, 1e-4), changed], 1)

    image = torch.rand(1, 2, 5, 5, generator=torch.Generator().manual_seed(0))
    attack = Pixle(restarts=1, iterations=1, patch=1)
    straight, mirrored = (
        one(First(image), image, torch.tensor([0])).images
        for one in (attack, Pixle(restarts=1, iterations=1, patch=1, mirrored=True))
    )
    changed = (straight != image).any(1)
    assert changed.sum() == 1
    row, column = changed[0].nonzero()[0].tolist()
    assert row != column
    assert (mirrored != image).any(1)[0].nonzero().tolist() == [[column, row]]
    with pytest.raises(ValueError, match="mirrored is True for images of 5 x 4, expected square"):
        Pixle(mirrored=True)(First(image[..., :4]), image[..., :4], torch.tensor([0]))


def test_the_defaults_are_the_papers():
    attack = Pixle()
    assert (attack.restarts, attack.iterations, attack.patch) == (10, 5, 3)
    assert attack.mapping == "similarity"
    assert attack.norm == "l0"
    with pytest.raises(ValueError, match="mapping is 'distance', expected one of similarity"):
        Pixle(mapping="distance")
