"""Attacks by name."""

from copy import copy
from dataclasses import dataclass

import pytest
import torch
from torch import nn

from ibnn.lab.attacks import (
    Attack,
    Attacked,
    attack_names,
    evaluate,
    named,
    register_attack,
    standard,
    suite,
    suites,
)
from ibnn.lab.attacks.suites import STANDARD


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_the_standard_suite_has_every_kind_once(norm):
    attacks = standard(0.1, norm)
    names = [attack.name for attack in attacks]
    assert len(set(names)) == len(names) == len(STANDARD)
    assert all(attack.norm == norm for attack in attacks)
    assert {attack.uses_gradients for attack in attacks} == {True, False}
    bounded = [attack for attack in attacks if attack.budget < float("inf")]
    assert all(attack.eps == 0.1 for attack in bounded)
    assert {attack.name for attack in attacks if attack not in bounded} == {
        f"fab-{norm}",
        f"hopskipjump-{norm}",
    }


def test_lists_are_read_in_order_and_without_repeats():
    found = suite("pixle, pgd,standard,pgd", 0.1, quick=True)
    assert [attack.name for attack in found[:3]] == ["pixle", "pgd-linf", "noise-linf"]
    assert len(found) == 1 + len(STANDARD)


def test_every_name_makes_an_attack_that_says_so():
    for name in attack_names():
        assert named(name, 0.1).name.startswith(name)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("cw", 0.1), "attacks is 'cw', expected one of standard, noise"),
        (("", 0.1), "attacks is ''"),
        (("fab", -1.0), "eps is -1.0, expected a radius of 0 or more"),
        (("fab", 0.1, "l1"), "norm is 'l1', expected one of linf, l2"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        suite(*arguments)


@dataclass(frozen=True)
class Blackout(Attack):
    """An attack of somebody else's: every image turned black, whatever that takes."""

    @property
    def name(self) -> str:
        return "blackout"

    def _attack(self, model, x, y, generator) -> Attacked:
        black = torch.zeros_like(x)
        return Attacked(black, y < 0, x.flatten(1).amax(1), torch.ones_like(y))


def test_an_attack_from_outside_is_known_once_it_is_registered(monkeypatch):
    monkeypatch.setattr(suites, "_MAKERS", copy(suites._MAKERS))
    register_attack("blackout", lambda eps, norm, quick: Blackout(norm=norm))
    assert attack_names()[-1] == "blackout"
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    with torch.no_grad():
        model[1].weight.copy_(torch.tensor([[1.0] * 4, [0.0] * 4]))
        model[1].bias.copy_(torch.tensor([0.0, 0.5]))
    images, labels = torch.full((3, 1, 2, 2), 0.5), torch.zeros(3, dtype=torch.int64)
    found = evaluate(model, images, labels, eps=1.0, attacks="blackout", checks=False)
    assert (found.clean_accuracy, found.robust_accuracy) == (1.0, 0.0)
    with pytest.raises(ValueError, match="'blackout' is registered already"):
        register_attack("blackout", suites._MAKERS["pgd"])
