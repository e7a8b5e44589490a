"""Transfer: the surrogate's gradients, the model's verdict."""

import pytest
import torch
from torch import nn

import ibnn
from ibnn.lab.attacks import APGD, FAB, PGD, Transfer
from tests.lab.attacks import exact


def test_the_default_surrogate_of_a_plain_model_is_the_model():
    model = exact.curved()
    x, y = exact.images(model, 60, (1, 4, 4))
    attack = PGD(0.1)
    found = Transfer(attack)(model, x, y)
    expected = PGD(0.1, early_stop=False)(model, x, y)
    assert torch.equal(found.images, expected.images)
    assert torch.equal(found.success, expected.success)
    assert (found.queries == 1).all()


@pytest.mark.parametrize("attack", [PGD(0.1), APGD(0.1, 10), PGD(0.3, norm="l2")])
def test_it_passes_where_the_model_hides_its_gradient(attack):
    model = exact.curved()
    hidden = exact.Labels(model)
    x, y = exact.images(model, 60, (1, 4, 4))
    blind = attack(hidden, x, y)
    found = Transfer(attack, surrogate=model)(hidden, x, y)
    assert found.success.sum() > 2 * blind.success.sum()
    assert torch.equal(found.success, Transfer(attack)(model, x, y).success)


def test_the_twin_without_implicit_biases_is_attacked():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(
            ibnn.Conv2d(1, 4, 3, lam=-0.5), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3)
        )
    x, y = exact.images(model, 40, (1, 8, 8))
    found = Transfer(PGD(0.1))(model, x, y)
    twin = ibnn.standard(model)
    assert torch.equal(found.images, Transfer(PGD(0.1), surrogate=twin)(model, x, y).images)
    with torch.no_grad():
        assert torch.equal(found.success, model(found.images).argmax(1) != y)
    assert not torch.equal(found.images, PGD(0.1, early_stop=False)(model, x, y).images)


def test_images_the_surrogate_gets_wrong_are_attacked_all_the_same():
    model, other = exact.linear((1, 3, 3), 2), exact.linear((1, 3, 3), 2, seed=1)
    x, y = exact.images(model, 60, (1, 3, 3), spread=0.2)
    found = Transfer(PGD(0.05), surrogate=other)(model, x, y)
    wrong_there = other(x).argmax(1) != y
    assert wrong_there.any()
    assert (found.distance[wrong_there] > 0.04).all()


def test_the_surrogate_is_left_as_it_was():
    model, other = exact.linear((1, 3, 3), 2), exact.linear((1, 3, 3), 2, seed=1).train()
    x, y = exact.images(model, 5, (1, 3, 3))
    Transfer(PGD(0.05), surrogate=other)(model, x, y)
    assert other.training
    assert all(parameter.requires_grad for parameter in other.parameters())


def test_its_name_and_radius_are_the_attacks():
    attack = Transfer(PGD(0.1, norm="l2"))
    assert (attack.name, attack.norm, attack.eps) == ("transfer(pgd-l2)", "l2", 0.1)
    assert not attack.uses_gradients
    with pytest.raises(TypeError, match="attack is a FAB, expected PGD or APGD"):
        Transfer(FAB())
