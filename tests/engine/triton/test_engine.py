"""The engine as the library uses it: when it serves, what a step costs, gradients of every kind."""

import importlib.util
import logging
from collections import Counter

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import ibnn
from ibnn import engine, sigma
from ibnn.coupling import Dense, Uniform
from ibnn.engine import triton as triton_engine
from ibnn.engine.native import loader

compiled = pytest.mark.skipif(
    not loader.available(), reason="no C++ compiler: the compiled engine cannot be built"
)


@pytest.fixture
def y(generator) -> torch.Tensor:
    return 0.2 * torch.randn(3, 80, generator=generator)


def case(**changes) -> engine.Case:
    uniform = engine.Case(
        "solve", Uniform(-1).sums, sigma.resolve("tanh"), torch.float32, "cuda", 8, (300,)
    )
    return uniform._replace(**changes)


def test_it_says_what_it_declines():
    declines = engine.engines()["triton"].declines
    assert declines(case()) is None
    assert declines(case(device="cpu")) is None  # while it is interpreted
    assert declines(case(sigma=sigma.resolve("erf"), units=(8, 8))) is None
    assert declines(case(operation="pair_sum", order=3)) is None
    for changes, reason in (
        ({"dtype": torch.float64}, "no torch.float64"),
        ({"device": "mps"}, "not for mps"),
        ({"sigma": sigma.resolve("hardtanh")}, "no sigma hardtanh"),
        ({"sigma": sigma.resolve("erf")}, "for tanh only"),
        ({"sums": Dense(torch.eye(3)).sums}, "nothing for matrix weights"),
        ({"operation": "pair_sum", "order": 4}, "order 0 to 3"),
        ({"operation": "pair_sum", "units": (80, 80)}, "up to 4096 units, not 6400"),
    ):
        assert reason in declines(case(**changes)), changes


def test_without_the_interpreter_the_cpu_is_declined(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET")
    declines = engine.engines()["triton"].declines
    assert "TRITON_INTERPRET=1" in declines(case(device="cpu"))
    assert declines(case()) is None


def test_without_triton_another_engine_takes_over_and_the_log_says_so(monkeypatch, caplog):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    triton_engine._missing.cache_clear()
    reason = None
    with caplog.at_level(logging.INFO, "ibnn"):
        for _ in range(3):
            reason = engine.engines()["triton"].declines(case())
    triton_engine._missing.cache_clear()
    assert reason == "triton is not installed (pip install 'ibnn[triton]')"
    assert [record.message for record in caplog.records] == [
        f"GPUs are served by the portable engine: {reason}"
    ]


def test_an_old_triton_is_declined(monkeypatch):
    monkeypatch.setattr(triton_engine, "version", lambda name: "3.1.0")
    triton_engine._missing.cache_clear()
    reason = engine.engines()["triton"].declines(case())
    triton_engine._missing.cache_clear()
    assert reason == "triton 3.1.0 is too old, 3.3 is needed"


def test_the_environment_demands_it(y, monkeypatch):
    expected = ibnn.implicit_bias(y, -0.2, engine="portable")
    asked = []
    solve = triton_engine.TritonEngine.solve
    monkeypatch.setattr(
        triton_engine.TritonEngine, "solve", lambda *a: asked.append(1) or solve(*a)
    )
    monkeypatch.setenv("IBNN_ENGINE", "triton")
    found = ibnn.implicit_bias(y, -0.2)
    assert asked
    assert (found - expected).abs().max() < 1e-5


def test_what_it_cannot_serve_is_an_error_where_it_is_demanded(y):
    with pytest.raises(engine.EngineError, match="'triton' cannot serve here: it has no "):
        ibnn.implicit_bias(y.double(), -0.2, engine="triton")


@compiled
@pytest.mark.parametrize("units", [40, 256])
@pytest.mark.parametrize("std", [0.1, 1.0])
def test_values_and_gradients_are_those_of_the_compiled_engine(units, std, generator):
    def answer(name):
        y = inputs.clone().requires_grad_()
        lam = torch.tensor([-0.5, -0.1, 0.04, 0.09]).requires_grad_()
        slope = torch.tensor([8.0, 10.0, 10.0, 10.0]).requires_grad_()
        z = ibnn.implicit_bias(y, lam, slope, engine=name, on_failure="raise")
        return [z.detach(), *torch.autograd.grad(z, (y, lam, slope), g)]

    inputs = std * torch.randn(2, 4, units, generator=generator)
    g = torch.randn(2, 4, units, generator=generator)
    # z of either is within 1e-5 of max(1, |y|), gradients within 1e-4 of their size
    (mine, *gradients), (theirs, *expected) = answer("triton"), answer("native")
    assert ((mine - theirs).abs() / inputs.abs().clamp_min(1)).max() <= 2e-5
    for found, other in zip(gradients, expected, strict=True):
        assert (found - other).abs().max() <= 2e-4 * other.abs().max()


def test_second_derivatives(y):
    def curvature(rows, name):
        rows = rows.clone().requires_grad_()
        lam = torch.tensor(-0.2, dtype=rows.dtype, requires_grad=True)
        z = ibnn.implicit_bias(rows, lam, engine=name)
        (first,) = torch.autograd.grad((z**2).sum(), rows, create_graph=True)
        return torch.autograd.grad((first**2).sum(), (rows, lam))

    found, expected = curvature(y, "triton"), curvature(y.double(), "portable")
    for mine, exact in zip(found, expected, strict=True):
        assert (mine - exact).abs().max() <= 1e-3 * exact.abs().max()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_solved_in_single(y, dtype):
    low = y.to(dtype)
    found = ibnn.implicit_bias(low, -0.2, engine="triton")
    assert found.dtype == dtype
    assert torch.equal(found, ibnn.implicit_bias(low.float(), -0.2, engine="triton").to(dtype))


def test_a_layer_trains_with_it(generator):
    torch.manual_seed(0)
    layer = ibnn.Linear(6, 10, engine="triton")
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    x = torch.randn(4, 6, generator=generator)
    losses = []
    for _ in range(3):
        loss = (layer(x) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[2] < losses[1] < losses[0]
    assert layer.last_solve.converged == 1


# torch's own compiler still meets deprecated parts of torch
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_torch_compile_keeps_it_whole(y):
    def step(rows):
        return ibnn.implicit_bias(rows * 2, -0.2, engine="triton").tanh()

    expected = step(y)
    found = torch.compile(step, fullgraph=True, backend="aot_eager")(y)
    assert torch.equal(found, expected)


class Counted(TorchDispatchMode):
    """Counts operations that launch something, and those that wait for the device."""

    NOTHING = ("detach", "expand", "empty", "empty_like", "new_empty")
    WAITS = ("_local_scalar_dense", "item", "nonzero", "equal", "is_nonzero", "unique")

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.overloadpacket.__name__ not in self.NOTHING:
            self.seen[function.overloadpacket.__name__] += 1
        return function(*args, **(kwargs or {}))

    @property
    def waits(self) -> int:
        return sum(self.seen[name] for name in self.WAITS)


@pytest.mark.parametrize(("units", "kernels"), [(40, 1), (80, 3), (5000, 4)])
def test_nothing_waits_for_the_device_and_launches_are_few(units, kernels, monkeypatch):
    """Kernels are launched whatever the data are, each once a pass, with a few small ops."""
    from ibnn.engine.triton import launch, node_rows, short_rows, sorted_rows

    launched = []

    class Kernel:
        def __init__(self, name):
            self.name = name

        def __getitem__(self, grid):
            return lambda *args, **kwargs: launched.append(self.name)

    for module in (node_rows, short_rows, sorted_rows):
        for name in vars(module):
            if name.startswith(("solve_", "adjoint_")) and name.endswith(("rows", "nodes")):
                monkeypatch.setattr(module, name, Kernel(name))
    rows, one = torch.randn(4, units), torch.ones(4)
    strength = -one.double()
    launch.solve(rows, one, one, one, 0.0, "tanh")  # fills the tables, once for a process
    launch.solve_adjoint(rows, rows, one, "tanh")
    launched.clear()
    with Counted() as forward:
        launch.solve(rows, strength, one, one, 2e-5, "tanh")
    assert len(launched) == kernels
    assert forward.waits == 0
    # the strength in float32, how rows stand, and which are solved
    assert sum(forward.seen.values()) <= 3
    launched.clear()
    with Counted() as backward:
        launch.solve_adjoint(rows, rows, one, "tanh")
    assert len(launched) == kernels
    assert backward.waits == 0
    assert sum(backward.seen.values()) <= 3


def test_warm_runs_the_kernels_of_a_length():
    seconds = triton_engine.warm("cpu", units=(5, 70))
    assert list(seconds) == [5, 70]
    assert all(time > 0 for time in seconds.values())


def test_one_row_to_a_program_as_on_a_gpu(y, monkeypatch):
    """The interpreter takes many rows at once; a GPU one, or a few short ones."""
    from ibnn.engine.triton import launch

    wide = torch.cat([y, 10 * y])
    expected = [ibnn.implicit_bias(x, -0.2, engine="triton") for x in (y[:, :5], wide)]
    monkeypatch.setattr(launch, "_at_once", lambda rows, elements, most: most)
    found = [ibnn.implicit_bias(x, -0.2, engine="triton") for x in (y[:, :5], wide)]
    for one, many in zip(found, expected, strict=True):
        assert (one - many).abs().max() <= 1e-6
