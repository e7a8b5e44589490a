"""A network comes back from its folder as it was, or one line says why not."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import ibnn
from tests.small_net import Net


@pytest.fixture
def x() -> Tensor:
    return torch.randn(5, 2, 6, 6, generator=torch.Generator().manual_seed(1))


def trained(**options: Any) -> Any:
    torch.manual_seed(0)
    model: Any = ibnn.convert(Net(), lam=-0.2, learn_lam=True, **options)
    optimizer = torch.optim.SGD(ibnn.parameter_groups(model, 0.1))
    model(torch.randn(4, 2, 6, 6)).square().sum().backward()
    optimizer.step()
    return model.eval()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"learn_slope": True, "sigma": "arctan"},
        {"coupling": {"conv": ibnn.Window((3, 3), "gaussian", learnable=True)}},
        {"coupling": {"linear": ibnn.Dense(torch.rand(6, 6), learnable=True)}},
        {"coupling": {"linear": ibnn.Dense(torch.rand(6, 6))}},
    ],
    ids=str,
)
def test_a_trained_network_comes_back_to_the_last_bit(
    tmp_path: Path, x: Tensor, options: dict[str, Any]
) -> None:
    model = trained(**options)
    assert ibnn.save(model, tmp_path / "new" / "folder") == tmp_path / "new" / "folder"
    fresh = Net().eval()
    before = {name: value.clone() for name, value in fresh.state_dict().items()}
    for start in (fresh, ibnn.convert(fresh, plan=model.conversion.plan)):
        again: Any = ibnn.load(tmp_path / "new" / "folder", start)
        assert torch.equal(again(x), model(x))
        assert ibnn.Plan.of(again) == ibnn.Plan.of(model)
    torch.testing.assert_close(dict(fresh.state_dict()), before, rtol=0, atol=0)


@pytest.mark.parametrize(
    "coupling", [ibnn.Window(3, "gaussian", std=0.7), ibnn.Dense(torch.rand(3, 3))], ids=str
)
def test_a_network_in_half_precision_comes_back(tmp_path: Path, coupling: ibnn.Coupling) -> None:
    model = nn.Sequential(ibnn.Linear(4, 3, lam=-0.1, coupling=coupling)).half()
    again = ibnn.load(ibnn.save(model, tmp_path), nn.Sequential(nn.Linear(4, 3)))
    assert torch.equal(again[0].weight, model[0].weight.float())


@pytest.mark.parametrize(
    "coupling",
    [
        {"conv": ibnn.Window((3, 3), "gaussian", learnable=True)},
        {"linear": ibnn.Dense(torch.rand(6, 6), learnable=True)},
        {"linear": ibnn.Dense(torch.rand(6, 6, dtype=torch.float64))},
    ],
    ids=str,
)
def test_a_network_in_double_precision_comes_back_to_the_last_bit(
    tmp_path: Path, x: Tensor, coupling: dict[str, ibnn.Coupling]
) -> None:
    model = trained(coupling=coupling).double()
    with torch.no_grad():  # no longer numbers of single precision
        for parameter in model.parameters():
            parameter /= 3
    again: Any = ibnn.load(ibnn.save(model, tmp_path), Net().double().eval())
    assert torch.equal(again(x.double()), model(x.double()))
    dtypes = [parameter.dtype for parameter in model.parameters()]
    assert [parameter.dtype for parameter in again.parameters()] == dtypes


def test_a_network_built_of_implicit_layers_or_of_none_comes_back(tmp_path: Path) -> None:
    for model in (nn.Sequential(ibnn.Linear(4, 3, lam=-0.1)), nn.Sequential(nn.Linear(4, 3))):
        folder = ibnn.save(model, tmp_path)
        again = ibnn.load(folder, model)
        assert torch.equal(again(torch.ones(4)), model(torch.ones(4)))


def test_one_explicit_step_comes_back_as_that(tmp_path: Path, x: Tensor) -> None:
    network = nn.Sequential(nn.Linear(x.shape[-1], 8), nn.Linear(8, 2))
    lite = ibnn.convert(network, lam=-0.3, solver="lite")
    assert torch.equal(ibnn.load(ibnn.save(lite, tmp_path), network)(x), lite(x))
    exact = ibnn.convert(network, lam=-0.3)
    assert not torch.equal(exact(x), lite(x))
    assert "solver" not in exact.conversion.plan.to_json()  # as older plans, which still load


def test_tied_weights_are_stored_once_and_stay_tied(tmp_path: Path) -> None:
    def tied() -> nn.Module:
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2))
        model[1].weight = model[0].weight
        return model

    model = ibnn.convert(tied(), lam=-0.3)
    folder = ibnn.save(model, tmp_path)
    again: Any = ibnn.load(folder, tied())
    assert again[0].weight is again[1].weight
    assert torch.equal(again(torch.ones(4)), model(torch.ones(4)))
    untied = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2))
    with pytest.raises(
        ValueError, match=r"does not fit the model: it has no weights for '1.weight'"
    ):
        ibnn.load(folder, untied)
    folder = ibnn.save(untied, tmp_path)
    with pytest.raises(
        ValueError, match=r"different weights for '0.weight' and '1.weight', which the model ties"
    ):
        ibnn.load(folder, tied())


def test_saving_again_replaces_the_network_and_leaves_nothing_behind(
    tmp_path: Path, x: Tensor
) -> None:
    ibnn.save(Net(), tmp_path)
    model = trained()
    ibnn.save(model, tmp_path)
    assert len(os.listdir(tmp_path)) == 2
    assert torch.equal(ibnn.load(tmp_path, Net().eval())(x), model(x))


def test_saving_leaves_files_of_the_users_own_alone(tmp_path: Path) -> None:
    (tmp_path / "weights-best.safetensors").write_bytes(b"mine")
    ibnn.save(Net(), tmp_path)
    ibnn.save(trained(), tmp_path)
    assert (tmp_path / "weights-best.safetensors").read_bytes() == b"mine"


def test_a_save_that_is_interrupted_leaves_the_old_network(
    tmp_path: Path, x: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = trained()
    ibnn.save(model, tmp_path)
    replace = os.replace

    def interrupted(source: Any, target: Any) -> None:
        if str(target).endswith("ibnn.json"):
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ibnn.save(ibnn.convert(Net(), lam=-0.9), tmp_path)
    assert not list(tmp_path.glob(".*"))
    assert torch.equal(ibnn.load(tmp_path, Net().eval())(x), model(x))


def test_an_index_that_is_a_link_stays_one(tmp_path: Path, x: Tensor) -> None:
    folder, elsewhere = tmp_path / "network", tmp_path / "elsewhere.json"
    ibnn.save(Net(), folder)
    (folder / "ibnn.json").rename(elsewhere)
    (folder / "ibnn.json").symlink_to(elsewhere)
    model = trained()
    ibnn.save(model, folder)
    assert (folder / "ibnn.json").is_symlink()
    assert torch.equal(ibnn.load(folder, Net().eval())(x), model(x))
    assert sorted(os.listdir(tmp_path)) == ["elsewhere.json", "network"]


def rewrite(file: Path, **values: Any) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def test_damaged_or_foreign_files_are_refused_in_one_line(tmp_path: Path) -> None:
    def check(message: str, model: nn.Module | None = None) -> None:
        with pytest.raises(ValueError, match=message) as caught:
            ibnn.load(tmp_path, model or Net())
        assert "\n" not in str(caught.value)

    check("holds no network: expected ibnn.json")
    ibnn.save(trained(), tmp_path)
    check("layer 'features.0': the model has no such layer", nn.Linear(3, 3))
    (weights,), index = tmp_path.glob("weights-*"), tmp_path / "ibnn.json"
    text, data = index.read_text(), weights.read_bytes()
    index.write_text(text.replace("-0.2", "-0.3", 1).replace('"tanh"', '"erf"', 1))
    check("ibnn.json is damaged: its checksum does not fit")
    index.write_text(text[: len(text) // 2])
    check("ibnn.json is damaged")
    index.write_text(text)
    rewrite(index, version=7)
    check("ibnn.json has version 7, this ibnn reads 1")
    index.write_text(text)
    weights.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    check(r"weights-.*safetensors is damaged: its checksum does not fit")
    weights.unlink()
    check(r"weights-.*safetensors is missing")


def test_weights_of_another_shape_are_refused_in_one_line(tmp_path: Path) -> None:
    ibnn.save(ibnn.convert(nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))), tmp_path)
    other = nn.Sequential(nn.Linear(5, 8), nn.Linear(8, 2))
    with pytest.raises(ValueError, match=r"it has weights of another shape for '0.weight'$"):
        ibnn.load(tmp_path, other)
    more = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2), nn.Linear(2, 2))
    with pytest.raises(ValueError, match=r"has no weights for '2.weight' and 1 more"):
        ibnn.load(tmp_path, more)


@pytest.mark.parametrize("name", ["implicit_bias", "my_implicit_bias"])
def test_a_weight_named_like_the_description_of_a_layer_is_a_weight(
    tmp_path: Path, name: str
) -> None:
    def network(size: int | None) -> nn.Module:
        model = nn.Sequential(nn.Linear(4, 3), nn.Identity())
        if size is not None:
            model[1].register_parameter(name, nn.Parameter(torch.ones(size)))
        return model

    ibnn.save(ibnn.convert(network(None), lam=-0.3, skip_head=False), tmp_path)
    with pytest.raises(ValueError, match=f"it has no weights for '1.{name}'$"):
        ibnn.load(tmp_path, network(2))
    ibnn.save(ibnn.convert(network(3), lam=-0.3, skip_head=False), tmp_path)
    with pytest.raises(ValueError, match=f"it has weights of another shape for '1.{name}'$"):
        ibnn.load(tmp_path, network(2))


def test_without_safetensors_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    with pytest.raises(ImportError, match=r"need safetensors: pip install safetensors$"):
        ibnn.save(nn.Linear(2, 2), tmp_path)
    with pytest.raises(ImportError, match="need safetensors"):
        ibnn.load(tmp_path, nn.Linear(2, 2))


class Config:
    """The part of a Hugging Face config that matters here."""

    def to_dict(self) -> dict[str, Any]:
        return vars(self)


class Pretrained(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(4, 8), nn.Linear(8, 2))
        self.config = Config()

    def save_pretrained(self, folder: Path) -> None:
        from safetensors.torch import save_file

        save_file(self.state_dict(), folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(self.config.to_dict()))


def test_a_pretrained_folder_carries_the_plan_in_its_config(tmp_path: Path) -> None:
    model = Pretrained()
    converted = ibnn.convert(model, lam=-0.4)
    assert not vars(model.config)
    assert vars(ibnn.standard(converted).config) == {}
    converted.save_pretrained(tmp_path)
    again: Any = ibnn.load(tmp_path, Pretrained())
    assert torch.equal(again(torch.ones(4)), converted(torch.ones(4)))
    assert float(again[0].lam) == pytest.approx(-0.4)
    model.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"config.json carries no plan of a conversion"):
        ibnn.load(tmp_path, Pretrained())
    converted.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"model.safetensors is missing"):
        ibnn.load(tmp_path, Pretrained())
