"""The plan of a conversion is data: written, read, rebuilt, refused where it does not fit."""

import json
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import ibnn
from tests.parts import Ring
from tests.small_net import CONVERTED, Net


@pytest.fixture
def net() -> Net:
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture
def x() -> Tensor:
    return torch.randn(5, 2, 6, 6, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    "options",
    [
        {"lam": -0.3},
        {"lam": {"features.*": -0.5, "*": 0.05}, "slope": 4.0, "sigma": "erf", "learn_lam": True},
        {"coupling": "layer", "bounded": (-1.0, 0.0), "learn_lam": True, "learn_slope": True},
        {"coupling": {"conv": ibnn.Window((3, 3), "gaussian", 1.5, learnable=True)}},
        {"coupling": {"conv": ibnn.Window((3, 3), "gaussian", 1.5)}},
        {"coupling": {"conv": ibnn.Window(5)}},
        {"coupling": {"linear": ibnn.Dense(torch.rand(6, 6))}},
        {"coupling": {"linear": Ring()}},
        {"lam": -0.2, "only": "features.3", "slope": [1.0, 2.0, 30.0]},
    ],
    ids=str,
)
def test_a_plan_rebuilds_the_conversion_after_a_detour_through_json(
    net: Net, x: Tensor, options: dict[str, Any]
) -> None:
    converted: Any = ibnn.convert(net, **options)
    plan = converted.conversion.plan
    assert plan == ibnn.Plan.of(converted)
    for form in (plan, plan.to_dict(), plan.to_json(), json.loads(plan.to_json())):
        again: Any = ibnn.convert(net, plan=form)
        assert again.conversion.converted == converted.conversion.converted
        assert [type(m) for m in again.modules()] == [type(m) for m in converted.modules()]
        assert again.conversion.plan == plan
        assert torch.equal(again(x), converted(x))


def test_what_the_plan_leaves_out_is_said_so(net: Net) -> None:
    plan = ibnn.convert(net, only="features.*").conversion.plan
    report = ibnn.conversion_report(net, plan=plan)
    assert report.converted == ("features.0", "features.3")
    assert report.skipped == dict.fromkeys(("up", "hidden", "head"), "not in the plan")


def test_how_to_solve_is_not_part_of_a_plan(net: Net) -> None:
    plan = ibnn.convert(net, max_steps=9).conversion.plan
    assert ibnn.convert(net, plan=plan, max_steps=7).hidden.max_steps == 7


def test_a_plan_fits_a_model_that_is_implicit_already_and_sets_its_lam(net: Net) -> None:
    plan = ibnn.convert(net, lam=-0.5, learn_lam=True).conversion.plan
    half = ibnn.convert(net, lam=-0.1, learn_lam=True, only="features.*")
    full: Any = ibnn.convert(half, plan=plan)
    assert full.conversion.converted == ("up", "hidden")
    assert [full.get_submodule(name).lam.item() for name in CONVERTED] == [-0.5] * 4
    assert half.features[0].lam.item() == pytest.approx(-0.1)


def test_a_plan_of_layers_built_by_hand(x: Tensor) -> None:
    model = nn.Sequential(ibnn.Conv2d(2, 3, 3, lam=-0.2), ibnn.ImplicitBias(-0.1))
    plan = ibnn.Plan.of(model)
    assert list(plan.layers) == ["0", "1"]
    again = ibnn.convert(model, plan=plan)
    assert torch.equal(again(x), model(x))


def changed(plan: ibnn.Plan, **values: Any) -> dict[str, Any]:
    data = json.loads(plan.to_json())
    data["layers"]["hidden"].update(values)
    return data


def test_a_plan_that_cannot_be_is_refused_in_one_line(net: Net) -> None:
    plan = ibnn.convert(net).conversion.plan
    data = plan.to_dict()
    layers = data["layers"]
    own = {"kind": "Nowhere", "settings": ""}
    for wrong, error, message in (
        ({**data, "version": 2}, ValueError, "plan has version 2, this ibnn reads 1"),
        ({"layers": layers}, ValueError, "not the plan of a conversion"),
        ({"version": 1}, ValueError, "it has no layers"),
        ("{", ValueError, "not the plan of a conversion: Expecting"),
        (3, TypeError, "plan must be an ibnn.Plan, its dict or its JSON, got 3"),
        (changed(plan, lam="x"), ValueError, "plan of layer 'hidden': lam must be a number"),
        (changed(plan, lam=[-0.1] * 6), ValueError, "plan of layer 'hidden': lam has shape"),
        (changed(plan, learn_lam=1), ValueError, "'hidden': learn_lam must be true or false"),
        (changed(plan, sigma="step"), ValueError, "plan of layer 'hidden': sigma='step'"),
        (changed(plan, more=1), ValueError, "plan of layer 'hidden': expected the keys coupling"),
        (changed(plan, coupling=own), ValueError, "'hidden': coupling 'Nowhere' is not known here"),
        (
            {"version": 1, "layers": {"hiden": layers["hidden"]}},
            ValueError,
            "plan does not fit the model: layer 'hiden': the model has no such layer",
        ),
        (
            {"version": 1, "layers": {"dropout": layers["hidden"]}},
            ValueError,
            "layer 'dropout': a Dropout cannot be converted",
        ),
    ):
        with pytest.raises(error, match=message) as caught:
            ibnn.convert(net, plan=wrong)
        assert "\n" not in str(caught.value)


def test_a_plan_for_other_choices_does_not_fit_an_implicit_model(net: Net) -> None:
    plan = ibnn.convert(net, slope=5.0).conversion.plan
    with pytest.raises(ValueError, match=r"'features.0': it is implicit with slope=10.0, planned"):
        ibnn.convert(ibnn.convert(net), plan=plan)


@pytest.mark.parametrize("name", ["lam", "only", "slope", "coupling", "learn_lam"])
def test_what_a_plan_says_is_not_said_twice(net: Net, name: str) -> None:
    values = {"lam": 0.0, "only": "*", "slope": 3.0, "coupling": "layer", "learn_lam": True}
    with pytest.raises(ValueError, match=f"plan sets {name} of every layer: leave {name} out"):
        ibnn.convert(net, plan=ibnn.Plan({}), **{name: values[name]})


@pytest.mark.parametrize("name", ["lam", "only", "skip_head", "slope", "coupling", "sigma"])
def test_a_default_written_out_beside_a_plan_is_no_second_word(net: Net, name: str) -> None:
    # numbers and texts that are equal to the defaults but other objects
    values: dict[str, Any] = {"lam": float("-0.1"), "only": None, "skip_head": True}
    values |= {"slope": 10, "coupling": "".join(["sp", "ace"]), "sigma": "".join(["ta", "nh"])}
    plan = ibnn.convert(net, lam=-0.3, slope=4.0).conversion.plan
    again: Any = ibnn.convert(net, plan=plan, **{name: values[name]})
    assert again.conversion.plan == plan


def test_a_coupling_of_ones_own_with_settings_needs_a_way_back(net: Net) -> None:
    class Near(Ring):
        def __init__(self, reach: int) -> None:
            super().__init__()
            self.reach = reach

        def extra_repr(self) -> str:
            return str(self.reach)

    class Back(Near):
        @classmethod
        def from_config(cls, config: Any) -> "Back":
            return cls(int(config["settings"]))

    plan = ibnn.convert(net, coupling={"linear": Near(2)}).conversion.plan
    with pytest.raises(ValueError, match=r"coupling Near cannot be rebuilt.*from_config"):
        ibnn.convert(net, plan=plan)
    plan = ibnn.convert(net, coupling={"linear": Back(2)}).conversion.plan
    assert ibnn.convert(net, plan=plan).hidden.coupling.reach == 2
