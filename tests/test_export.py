"""A copy of plain ops: as exact as asked on the sample, close elsewhere, recorded by exporters."""

import copy
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import ibnn
from tests.parts import Softsign
from tests.small_net import Net


def images(seed: int, count: int = 16) -> Tensor:
    return torch.randn(count, 2, 6, 6, generator=torch.Generator().manual_seed(seed))


def network(**options: Any) -> Any:
    torch.manual_seed(0)
    return ibnn.convert(Net(), **{"lam": -0.3, **options}).eval()


@pytest.mark.parametrize("slope", [1.0, 10.0, 30.0])
@pytest.mark.parametrize("lam", [-1.0, -0.1, 0.95])
@pytest.mark.parametrize("std", [0.1, 1.0, 5.0])
def test_a_dozen_steps_solve_what_the_solver_solves(slope: float, lam: float, std: float) -> None:
    lam = lam if lam < 0 else lam / slope  # up to 0.95 of the threshold
    layer = ibnn.ImplicitBias(lam, slope, learn_lam=False, dtype=torch.float64)
    y = std * torch.randn(8, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    plain = ibnn.for_export(layer, y, steps=12)
    # Newton's steps are quadratic near the end: converged is the solver's own accuracy
    torch.testing.assert_close(plain(y), layer(y), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    "options",
    [
        {"sigma": "tanh"},
        {"sigma": "erf", "slope": 3.0},
        {"sigma": "arctan"},
        {"sigma": "hardtanh"},
        {"coupling": "channels"},
        {"coupling": "layer"},
        {"lam": {"features.*": 0.08, "*": -0.5}},
        {"coupling": {"conv": ibnn.Window(3), "linear": ibnn.Dense(torch.rand(6, 6) / 6)}},
        {"coupling": {"conv": ibnn.Window((5, 3), "gaussian", learnable=True)}},
        {"only": "features.0", "slope": [1.0, 5.0, 10.0, 20.0]},
    ],
    ids=str,
)
def test_every_sigma_and_coupling_reaches_the_error_and_holds_it_out(
    options: dict[str, Any],
) -> None:
    model = network(**options)
    before = copy.deepcopy(model.state_dict())
    plain: Any = ibnn.for_export(model, images(1), error=1e-4)
    measured = float((plain(images(1)) - model(images(1))).detach().abs().max())
    assert measured == pytest.approx(plain.error)
    assert plain.error <= 1e-4
    assert 1 <= plain.steps <= 12
    held_out = float((plain(images(2, 64)) - model(images(2, 64))).detach().abs().max())
    # four times as many images from the same distribution, and Newton squares its error at every
    # step: ten times the bound would be another regime
    assert held_out <= 1e-3
    assert not any(isinstance(module, ibnn.ImplicitLayer) for module in plain.modules())
    torch.testing.assert_close(dict(model.state_dict()), dict(before), rtol=0, atol=0)


def test_the_number_of_steps_is_the_smallest_that_will_do() -> None:
    model = network()
    loose: Any = ibnn.for_export(model, images(1), error=1e-2)
    tight: Any = ibnn.for_export(model, images(1), error=1e-5)
    assert loose.steps < tight.steps
    fewer: Any = ibnn.for_export(model, images(1), steps=tight.steps - 1)
    assert fewer.error > 1e-5
    assert (fewer.steps, fewer(images(1)).shape) == (tight.steps - 1, (16, 3))


def test_another_size_of_image_is_solved_as_such() -> None:
    layer = ibnn.Conv2d(2, 3, 3, lam=-0.4, learn_lam=False)
    plain = ibnn.for_export(layer, torch.randn(4, 2, 6, 6), error=1e-5)
    x = torch.randn(4, 2, 9, 8)
    torch.testing.assert_close(plain(x), layer(x), rtol=0, atol=1e-4)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # TorchScript itself
def test_a_traced_copy_computes_the_same_also_for_other_batches() -> None:
    plain: Any = ibnn.for_export(network(), images(1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.jit.TracerWarning)  # type: ignore[attr-defined]
        traced: Any = torch.jit.trace(plain, images(1))
    for x in (images(1), images(2, 5)):
        torch.testing.assert_close(traced(x), plain(x))


def test_torch_export_records_plain_ops_only() -> None:
    plain: Any = ibnn.for_export(network(), images(1))
    program = torch.export.export(plain, (images(1),))
    assert not [n for n in program.graph.nodes if "ibnn" in str(n.target)]
    torch.testing.assert_close(program.module()(images(2)), plain(images(2)))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore:Constant folding:UserWarning")  # of the older exporter
@pytest.mark.parametrize(
    ("coupling", "dynamo"),
    [
        ("space", False),
        (ibnn.Window((3, 3)), False),
        # the newer exporter takes minutes for thousands of ops
        pytest.param("space", True, marks=pytest.mark.slow),
    ],
)
def test_onnxruntime_computes_the_same(tmp_path: Path, coupling: Any, dynamo: bool) -> None:
    pytest.importorskip("onnxscript", reason="needs the extra ibnn[export]")
    runtime = pytest.importorskip("onnxruntime", reason="needs the extra ibnn[export]")
    model = network(coupling={"conv": coupling}, **({"only": "features.0"} if dynamo else {}))
    plain: Any = ibnn.for_export(model, images(1))
    file = tmp_path / "network.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.jit.TracerWarning)  # type: ignore[attr-defined]
        torch.onnx.export(plain, (images(1),), file, dynamo=dynamo, verbose=False)
    session = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    (name,) = [value.name for value in session.get_inputs()]
    for x in (images(1), images(2)):
        (found,) = session.run(None, {name: x.numpy()})
        # the same ops in float32, in an order of its own
        torch.testing.assert_close(torch.from_numpy(found), plain(x).detach(), rtol=0, atol=1e-4)
        assert float((torch.from_numpy(found) - model(x).detach()).abs().max()) <= 1e-3


def test_the_fused_path_of_an_encoder_does_not_pass_the_bias_by() -> None:
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    model = ibnn.convert(nn.TransformerEncoder(layer, 2).eval(), lam=-0.5, skip_head=False)
    x = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(1))
    plain: Any = ibnn.for_export(model, x)
    with torch.no_grad():
        torch.testing.assert_close(plain(x), model(x), rtol=0, atol=1e-4)


def test_several_arguments_and_outputs() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = ibnn.Linear(4, 8, lam=-0.2)

        def forward(self, x: Tensor, shift: Tensor) -> dict[str, Any]:
            return {"z": self.layer(x) + shift, "count": torch.tensor(len(x))}

    x, shift = torch.randn(5, 4), torch.ones(8)
    model = Two()
    for sample in ((x, shift), {"x": x, "shift": shift}):
        plain: Any = ibnn.for_export(model, sample)
        torch.testing.assert_close(plain(x, shift)["z"], model(x, shift)["z"], rtol=0, atol=1e-4)


@pytest.mark.parametrize("names", [("z", "ratio"), ("ratio", "z")], ids=str)
def test_an_output_that_is_not_a_number_is_infinitely_far_off(names: tuple[str, str]) -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = ibnn.Linear(4, 8, lam=-0.2)

        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            z = self.layer(x)
            outputs = {"z": z, "ratio": z / torch.zeros(())}
            return tuple(outputs[name] for name in names)

    plain: Any = ibnn.for_export(Two(), torch.randn(5, 4), steps=6)
    assert plain.error == float("inf")
    with pytest.raises(ValueError, match="is not reached in 24 steps: the outputs are off by inf"):
        ibnn.for_export(Two(), torch.randn(5, 4))


class Classes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = ibnn.Linear(4, 8, lam=-0.2)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x).argmax(-1)


@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        (nn.Linear(4, 4), {}, "model has no implicit layer: export it as it is"),
        (ibnn.Linear(4, 4, solver="lite"), {}, "layer '': solver 'lite' is approximate"),
        (ibnn.Linear(4, 4, sigma=Softsign()), {}, "has no formula for its derivative"),
        (ibnn.Linear(4, 4097, lam=-0.1), {}, "rows have 4097 units, .*at most 4096"),
        (Classes(), {}, "model has no floating-point output on the sample"),
        (ibnn.Linear(4, 4), {"error": 0.0}, "error must be positive, got 0.0"),
        (
            ibnn.Linear(4, 4),
            {"steps": True},
            "steps must be a whole number of at least 1, got True",
        ),
        (ibnn.Linear(4, 4, lam=-0.2), {"error": 1e-12}, "error=1e-12 is not reached in 24 steps"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else None,
)
def test_what_cannot_be_exported_is_said_in_one_line(
    model: nn.Module, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        ibnn.for_export(model, torch.randn(8, 4), **arguments)
    assert "\n" not in str(caught.value)
