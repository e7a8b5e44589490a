"""PGD against closed forms, and what more work may never do: help the defender."""

import dataclasses

import pytest
import torch
from torch.nn import functional as F

from ibnn.lab.attacks import PGD, fgsm
from tests.lab.attacks import exact

# Radii at which a share of the images falls, and no image's own distance lies within rounding.
RADII = {"linf": (0.02, 0.05, 0.1), "l2": (0.05, 0.1, 0.2)}


@pytest.mark.parametrize("loss", ["ce", "margin", "dlr"])
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_two_linear_classes_fall_exactly_where_they_must(norm, loss):
    shape = (1, 4, 4)
    model = exact.linear(shape, 2)
    # In l_inf the box may cut the ball; in l_2 the images stay clear of it (see `project`).
    x, y = exact.images(model, 200, shape, spread=1.0 if norm == "linf" else 0.4)
    nearest = exact.smallest(model, x, y, norm)
    for eps in RADII[norm]:
        expected = nearest < eps
        assert 0 < expected.sum() < len(x)
        found = PGD(eps, steps=20, loss=loss, norm=norm)(model, x, y)
        sure = (nearest - eps).abs() > 1e-5 * eps
        assert torch.equal(found.success[sure], expected[sure])


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_one_step_is_enough_where_the_loss_is_linear(norm):
    shape = (1, 4, 4)
    model = exact.linear(shape, 2)
    x, y = exact.images(model, 200, shape, spread=0.4)
    eps = RADII[norm][1]
    nearest = exact.smallest(model, x, y, norm)
    found = fgsm(eps, norm=norm)(model, x, y)
    assert torch.equal(found.success, nearest < eps)
    assert found.queries.max() == 2  # the gradient, and the image it leads to


@pytest.mark.parametrize("loss", ["ce", "margin", "dlr"])
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_more_steps_and_restarts_never_help_the_defender(norm, loss):
    model, eps = exact.curved(), {"linf": 0.08, "l2": 0.3}[norm]
    x, y = exact.images(model, 150, (1, 4, 4))

    def success(steps: int, restarts: int) -> torch.Tensor:
        attack = PGD(eps, steps, eps / 4, loss, restarts=restarts, norm=norm)
        return attack(model, x, y, batch_size=40).success

    few, more, most = success(2, 1), success(6, 1), success(6, 3)
    assert few.sum() < most.sum()  # else this test could not fail
    assert (few <= more).all()
    assert (success(2, 3) >= few).all()
    assert (more <= most).all()


def test_without_early_stop_the_loss_goes_on_rising():
    model, eps = exact.curved(), 0.1
    x, y = exact.images(model, 100, (1, 4, 4))
    first = PGD(eps)(model, x, y)
    full = PGD(eps, early_stop=False)(model, x, y)
    assert torch.equal(first.success, full.success)
    assert (full.queries == 11).all()
    assert (first.queries[first.success] < 11).any()

    def loss(images: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(images), y, reduction="none").detach()

    assert (loss(full.images) >= loss(first.images) - 1e-6).all()
    assert (loss(full.images) > loss(first.images) + 0.01).any()


def test_a_model_without_a_gradient_is_walked_past():
    model = exact.curved()
    x, y = exact.images(model, 20, (1, 4, 4))
    assert not PGD(0.1, random_start=False)(exact.Labels(model), x, y).success.any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"eps": -0.1}, "eps is -0.1, expected a radius of 0 or more"),
        ({"eps": float("inf")}, "eps is inf"),
        ({"steps": 0}, "steps is 0, expected a whole number of at least 1"),
        ({"restarts": 1.5}, "restarts is 1.5, expected a whole number"),
        ({"alpha": 0.0}, "alpha is 0.0, expected a step length above 0"),
        ({"norm": "l0"}, "norm is 'l0', expected one of linf, l2"),
        ({"loss": "hinge"}, "loss is 'hinge', expected one of ce, margin, dlr"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        PGD(**{"eps": 0.1, **settings})


def test_settings_cannot_change_under_way():
    with pytest.raises(dataclasses.FrozenInstanceError):
        PGD(0.1).eps = 0.2
