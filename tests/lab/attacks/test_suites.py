"""Attacks by name."""

import pytest

from ibnn.lab.attacks import named, standard, suite
from ibnn.lab.attacks.suites import NAMES, STANDARD


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
    for name in NAMES:
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
