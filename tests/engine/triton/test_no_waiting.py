"""A step that converges asks nothing of the device; a failure is told of once the host hears of it.

CPU tensors are taken for those of a GPU here. Inside the library's own ops too, every operation is
seen by a dispatch mode.
"""

import re
import warnings
from collections import Counter
from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

import ibnn
from ibnn._core import deferred_failures

# operations that come back with numbers, or with as many elements as the data say
WAITS = ("_local_scalar_dense", "item", "is_nonzero", "equal", "nonzero", "masked_select", "unique")
# views and empty tensors: the device has nothing to do
NOTHING = re.compile(
    r"^(detach|expand|view|t|transpose|permute|.*unsqueeze|squeeze|.*empty.*|alias)$"
)


class Seen(TorchDispatchMode):
    """Counts what waits and what is launched; the ops of the library are looked into."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: Counter = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        if function.namespace == "ibnn":
            cpu = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
            with self:
                return function.redispatch(cpu, *args, **(kwargs or {}))
        # an index of truth values is a nonzero in disguise
        if name in ("index", "index_put_") and any(
            i is not None and i.dtype == torch.bool for i in args[1]
        ):
            name = "nonzero"
        if not NOTHING.match(name):
            self.operations[name] += 1
        return function(*args, **(kwargs or {}))

    @property
    def waits(self) -> dict[str, int]:
        return {name: self.operations[name] for name in WAITS if self.operations[name]}


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch) -> Iterator[None]:
    monkeypatch.setattr(deferred_failures, "is_asynchronous", lambda x: True)
    yield
    deferred_failures._pending.clear()


@pytest.fixture
def kernels(monkeypatch) -> list[str]:
    """The kernels launched; what the interpreter does inside one is not seen."""
    from ibnn.engine.triton import launch

    launched = []

    class Kernel:
        def __init__(self, kernel):
            self.kernel = kernel

        def __getitem__(self, grid):
            def run(*args, **kwargs):
                launched.append(self.kernel.__name__)
                with _disable_current_modes():
                    self.kernel[grid](*args, **kwargs)

            return run

    for module in (launch.node_rows, launch.short_rows, launch.sorted_rows, launch.pair_sums):
        for name, value in list(vars(module).items()):
            if name.startswith(("solve_", "adjoint_", "sum_")) and value.fn.__module__ == (
                module.__name__
            ):
                monkeypatch.setattr(module, name, Kernel(value))
    return launched


def network(**options) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        ibnn.Conv2d(1, 2, 3, lam=-0.1, engine="triton", **options),
        nn.ReLU(),
        nn.Flatten(),
        ibnn.Linear(2 * 10 * 10, 5, lam=0.05, engine="triton", **options),
    )


def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    loss = model(x).square().mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


def test_a_training_step_waits_for_nothing_and_launches_little(kernels, generator, monkeypatch):
    # flags are looked at where they have arrived, on the host
    monkeypatch.setattr(deferred_failures, "poll", lambda wait=False: None)
    model, x = network(), torch.randn(2, 1, 12, 12, generator=generator)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step(model, optimizer, x)  # the tables of the kernels are made, once for a process
    deferred_failures._pending.clear()
    kernels.clear()
    with Seen() as seen:
        step(model, optimizer, x)
    assert seen.waits == {}
    # rows of 100 units: 32 nodes, 64 nodes, sorted; rows of 5: one kernel; each there and back
    assert Counter(kernels) == {
        "solve_on_nodes": 2,
        "solve_sorted_rows": 1,
        "solve_short_rows": 1,
        "adjoint_on_nodes": 2,
        "adjoint_sorted_rows": 1,
        "adjoint_short_rows": 1,
    }

    deferred_failures._pending.clear()
    standard = ibnn.standard(model)
    with Seen() as without:
        step(standard, torch.optim.SGD(standard.parameters(), lr=0.1), x)
    # of a layer: bounds of lam, values for each row, verdicts, and the way back of all of them
    added = seen.operations.total() - without.operations.total()
    print(f"{added} small operations in two layers, beside {len(kernels)} kernels")
    assert added <= 2 * 60


def test_long_rows_and_raising_may_wait(generator):
    """What the test above would not see, were its counts blind."""
    y = 0.1 * torch.randn(1, 5000, generator=generator)
    with Seen() as seen:
        ibnn.implicit_bias(y, -0.1, engine="triton")
    assert seen.waits
    with Seen() as seen:
        ibnn.implicit_bias(y[:, :20], -0.1, engine="triton", on_failure="raise")
    assert seen.waits


def failing() -> tuple[ibnn.Linear, torch.Tensor]:
    """Above the threshold nothing is called solved."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ibnn.ThresholdWarning)
        layer = ibnn.Linear(3, 20, lam=0.3, bounded=False, engine="triton")
    return layer, torch.randn(2, 3, generator=torch.Generator().manual_seed(0))


def test_a_failure_is_told_of_at_the_next_call_and_once_for_a_layer():
    layer, x = failing()
    layer(x)  # no warning yet, or it would be an error here
    with pytest.warns(ibnn.ConvergenceWarning, match="2 of 2 rows did not converge"):
        layer(x)
    layer(x)
    layer(x)


def test_whoever_reads_last_solve_is_told_of_a_failure():
    layer, x = failing()
    layer(x)
    with pytest.warns(ibnn.ConvergenceWarning, match="of a Linear"):
        assert layer.last_solve.converged == 0


def test_a_failure_of_a_layer_that_is_gone_is_told_of_at_the_end():
    layer, x = failing()
    layer(x)
    del layer
    with pytest.warns(ibnn.ConvergenceWarning, match="2 of 2 rows did not converge"):
        deferred_failures.poll(wait=True)


def test_a_failure_of_a_function_is_told_of_by_the_next():
    y = torch.linspace(-0.1, 0.1, 30).repeat(3, 1)
    y[1, 4] = torch.nan
    ibnn.implicit_bias(y, -0.1, engine="triton")
    with pytest.warns(ibnn.ConvergenceWarning, match="1 of 3 rows are not finite"):
        ibnn.implicit_bias(y[:1], -0.1, engine="triton")


def test_raising_is_at_once():
    y = torch.full((1, 4), torch.inf)
    with pytest.raises(ibnn.ConvergenceError, match="1 of 1 rows are not finite"):
        ibnn.implicit_bias(y, -0.1, engine="triton", on_failure="raise")


@pytest.mark.parametrize("units", [5, 100])
def test_a_slope_that_is_not_positive_spoils_its_row_and_is_told_of(units):
    y = torch.linspace(-1, 1, units).repeat(2, 3, 1)
    slope = torch.tensor([10.0, -1.0, torch.nan])
    z = ibnn.implicit_bias(y, -0.1, slope, engine="triton")
    assert z[:, 0].isfinite().all()
    assert z[:, 1:].isnan().all()
    with pytest.warns(ibnn.ConvergenceWarning, match="4 of 6 rows are not finite"):
        deferred_failures.poll(wait=True)


def test_flags_that_have_not_arrived_are_left_alone():
    class Arrival:
        there = False

        def query(self):
            return self.there

        def synchronize(self):
            self.there = True

    told, arrival = [], Arrival()
    deferred_failures._pending.append(
        deferred_failures.Flag(torch.tensor(True), arrival, lambda: told.append(1))
    )
    deferred_failures._pending.append(
        deferred_failures.Flag(torch.tensor(False), arrival, lambda: told.append(2))
    )
    deferred_failures.poll()
    assert not told
    deferred_failures.poll(wait=True)
    assert told == [1]
    assert not deferred_failures._pending
