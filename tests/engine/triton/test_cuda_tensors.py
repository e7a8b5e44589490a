"""What runs on CUDA tensors, run on fake ones: no data, but a device that is minded.

A fake tensor refuses an operation with tensors of two devices, and every question whose answer
would be data (`bool`, `item`, `nonzero`): what passes here mixes no devices and waits for nothing.
"""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

import ibnn
from ibnn._core import deferred_failures, ops
from ibnn.coupling import Uniform
from ibnn.functional import solve_options

CUDA = torch.device("cuda:0")


@pytest.fixture
def fake(monkeypatch) -> Iterator[list[str]]:
    """Kernels that do nothing, and a list of those that were launched."""
    from ibnn.engine.triton import chebyshev, launch

    launched = []

    class Kernel:
        def __init__(self, name):
            self.name = name

        def __getitem__(self, grid):
            def run(*args, **kwargs):
                launched.append(self.name)
                places = {a.device for a in args if isinstance(a, torch.Tensor)}
                assert places == {CUDA}, f"{self.name} on {places}"

            return run

    for module in (launch.node_rows, launch.short_rows, launch.sorted_rows, launch.pair_sums):
        for name in vars(module):
            if name.startswith(("solve_", "adjoint_", "sum_")) and name.endswith(
                ("rows", "nodes", "pairs")
            ):
                monkeypatch.setattr(module, name, Kernel(name))
    # this build of torch may know no CUDA: nothing is sent, and there is one device
    monkeypatch.setattr(deferred_failures, "defer", lambda value, tell: None)
    monkeypatch.setattr(launch, "_on", lambda y: nullcontext())
    for tables in (chebyshev.tables, launch._exponentials):
        tables.cache_clear()
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield launched
    for tables in (chebyshev.tables, launch._exponentials):
        tables.cache_clear()


def inside(op: Any, *args: object) -> Any:
    """The code of an op itself, where torch would have taken its empty results instead."""
    return op.__wrapped__(*args)


def how(**options) -> str:
    return solve_options(Uniform(-1), **options).text


@pytest.mark.parametrize(("units", "kernels"), [(40, 1), (1024, 3)])
@pytest.mark.parametrize("on_failure", ["warn", "ignore"])
def test_both_passes_stay_on_the_device_and_ask_it_nothing(fake, units, kernels, on_failure):
    y, lam = torch.empty(6, units, device=CUDA), torch.empty(6, device=CUDA)
    text = how(on_failure=on_failure)
    found = inside(ops.solve, y, lam, lam, None, None, [units], text)
    assert {x.device for x in found} == {CUDA}
    assert found[0].shape == y.shape
    assert len(fake) == kernels
    v, dot = inside(ops.solve_adjoint, y, y, lam, None, [units], text)
    assert (v.device, dot.device) == (CUDA, CUDA)
    assert len(fake) == 2 * kernels
    assert inside(ops.pair_sum, y, None, None, 1, [units], text).device == CUDA


@pytest.mark.parametrize(
    ("units", "on_failure"), [(40, "raise"), (5000, "warn")], ids=["raise", "long rows"]
)
def test_what_does_ask_is_seen(fake, units, on_failure):
    y, lam = torch.empty(2, units, device=CUDA), torch.empty(2, device=CUDA)
    with pytest.raises(DataDependentOutputException):
        inside(ops.solve, y, lam, lam, None, None, [units], how(on_failure=on_failure))


def test_a_mixture_of_devices_is_seen(fake):
    y, lam = torch.empty(2, 40, device=CUDA), torch.empty(2)
    with pytest.raises(AssertionError, match=r"solve_short_rows on .*cpu"):
        inside(ops.solve, y, lam, lam, None, None, [40], how())


@pytest.mark.parametrize("lam", ["number", "on the CPU", "of channels, on the CPU", "on CUDA"])
def test_z_is_where_y_is_whatever_lam_is(fake, lam):
    y = torch.empty(2, 3, 40, device=CUDA, dtype=torch.float16)
    value = {
        "number": -0.1,
        "on the CPU": torch.empty(()),
        "of channels, on the CPU": torch.empty(3),
        "on CUDA": torch.empty(3, device=CUDA),
    }[lam]
    z = ibnn.implicit_bias(y, value, slope=torch.empty(3), engine="triton")
    assert (z.device, z.dtype, z.shape) == (CUDA, torch.float16, y.shape)
    solution = ibnn.solve(y, value, engine="triton")
    assert {x.device for x in (solution.converged, solution.residual, solution.steps)} == {CUDA}


def test_a_layer_and_its_input_on_two_devices_are_refused_as_by_its_parent(fake):
    layer, x = ibnn.Linear(4, 6, engine="triton"), torch.empty(2, 4, device=CUDA)
    with pytest.raises(RuntimeError, match="device"):
        layer(x)


# torch's own compiler still meets deprecated parts of torch
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_an_exported_program_solves_with_the_same_engine(generator):
    layer = ibnn.Linear(4, 70, lam=-0.2, engine="triton")
    x = torch.randn(3, 4, generator=generator)
    exported = torch.export.export(layer, (x,))
    assert [str(n.target) for n in exported.graph.nodes].count("ibnn.solve.default") == 1
    assert torch.equal(exported.module()(x), layer(x))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_compiled_training_step_is_one_graph(generator):
    layer = ibnn.Linear(4, 20, lam=-0.2, engine="triton")
    x = torch.randn(3, 4, generator=generator)

    def loss(rows):
        return layer(rows).square().sum()

    expected = torch.autograd.grad(loss(x), list(layer.parameters()))
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    found = torch.autograd.grad(compiled(x), list(layer.parameters()))
    for mine, theirs in zip(found, expected, strict=True):
        assert torch.equal(mine, theirs)
