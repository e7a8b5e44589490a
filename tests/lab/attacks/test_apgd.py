"""APGD against closed forms, and the reason it exists: steps that shrink where they must."""

import pytest
import torch
from torch import Tensor, nn

from ibnn.lab.attacks import APGD, PGD
from tests.lab.attacks import exact

SHAPE = (2, 3, 3)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_with_a_run_per_class_many_linear_classes_fall_exactly_where_they_must(norm):
    model = exact.linear(SHAPE, 6)
    x, y = exact.images(model, 120, SHAPE, spread=1.0 if norm == "linf" else 0.4)
    nearest = exact.smallest(model, x, y, norm)
    for eps in {"linf": (0.03, 0.1), "l2": (0.05, 0.15)}[norm]:
        expected = nearest < eps
        assert 0 < expected.sum() < len(x)
        found = APGD(eps, 20, "dlr-targeted", norm=norm)(model, x, y)
        # 20 steps in l_2 come within a thousandth of the best direction
        sure = (nearest - eps).abs() > (1e-5 if norm == "linf" else 1e-3) * eps
        assert torch.equal(found.success[sure], expected[sure])


class Hole(nn.Module):
    """Class 0 everywhere but in a small ball around one point: a target that is easily overshot."""

    def __init__(self, centre: Tensor, radius: float):
        super().__init__()
        self.centre, self.radius = nn.Parameter(centre), radius

    def forward(self, x: Tensor) -> Tensor:
        away = (x - self.centre).flatten(1).square().sum(1)
        return torch.stack([away, torch.full_like(away, self.radius**2), away - 10], 1)


@pytest.mark.parametrize("loss", ["ce", "dlr", "dlr-targeted"])
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_it_enters_a_hole_that_fixed_steps_jump_over(norm, loss):
    x = 0.5 + 0.1 * torch.rand(10, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    centre = torch.full((1, 1, 4, 4), 0.5)
    model, y = Hole(centre, 0.01), torch.zeros(10, dtype=torch.long)
    eps = 0.2 if norm == "linf" else 0.6
    fixed = PGD(eps, 100, norm=norm)(model, x, y)
    assert fixed.success.float().mean() < 0.5
    assert APGD(eps, 100, loss, norm=norm)(model, x, y).success.all()


def test_more_restarts_and_targets_never_help_the_defender():
    model = exact.curved()
    x, y = exact.images(model, 100, (1, 4, 4))

    def success(restarts: int, targets: int) -> Tensor:
        attack = APGD(0.1, 1, "dlr-targeted", restarts, targets)
        return attack(model, x, y, batch_size=30).success

    one, four, many = success(1, 1), success(1, 4), success(3, 4)
    assert one.sum() < many.sum()
    assert (one <= four).all()
    assert (four <= many).all()


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("loss", ["dlr", "dlr-targeted"])
def test_losses_made_for_many_classes_work_with_few(classes, loss):
    model = exact.linear(SHAPE, classes)
    x, y = exact.images(model, 60, SHAPE)
    nearest = exact.smallest(model, x, y, "linf")
    found = APGD(0.1, 10, loss)(model, x, y)
    assert not found.success[nearest > 0.1].any()
    assert found.success[nearest < 0.1 * (1 - 1e-5)].float().mean() > 0.95


def test_an_unknown_loss_is_named():
    with pytest.raises(ValueError, match="loss is 'margin', expected one of ce, dlr, dlr-targeted"):
        APGD(0.1, loss="margin")
