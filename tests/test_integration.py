"""The neuron inside torch's machinery: each against what it computes in eager mode."""

import copy
import io
import pickle
import subprocess
import sys
import textwrap

import pytest
import torch
from torch import nn

import ibnn
from tests.parts import Softsign

# the same sums in the same order: only fused arithmetic around the solve can differ
CLOSE = {"rtol": 1e-5, "atol": 1e-6}


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        ibnn.Conv2d(1, 3, 3, lam=[-0.2, 0.0, 0.05], slope=8.0, learn_slope=True),
        nn.ReLU(),
        ibnn.Conv2d(3, 4, 3, lam=-0.1, coupling=ibnn.Window(3, "gaussian", learnable=True)),
        nn.Flatten(),
        ibnn.Linear(4 * 4 * 4, 5, lam=-0.3, coupling=ibnn.Dense(units=5, learnable=True)),
    )


def images(batch=3):
    return torch.randn(batch, 1, 8, 8, generator=torch.Generator().manual_seed(1))


def run(model, x):
    """The output, and the gradients of x and of every parameter."""
    x = x.clone().requires_grad_()
    out = model(x)
    grads = torch.autograd.grad(out.square().sum(), [x, *model.parameters()])
    return [out.detach(), *grads]


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


# torch's own compiler still meets deprecated parts of torch
COMPILER_NOISE = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


class TestCompile:
    pytestmark = COMPILER_NOISE

    @pytest.fixture(autouse=True)
    def fresh(self):
        torch.compiler.reset()
        yield
        torch.compiler.reset()

    def test_a_network_compiles_without_a_graph_break(self):
        model = network()
        expected = run(model, images())
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        x = images().requires_grad_()
        out = compiled(x)
        grads = torch.autograd.grad(out.square().sum(), [x, *model.parameters()])
        assert_same([out.detach(), *grads], expected)

    def test_the_function_compiles_with_new_batch_sizes(self):
        def function(y, lam):
            return ibnn.implicit_bias(y, lam).square().sum()

        compiled = torch.compile(function, fullgraph=True, backend="aot_eager", dynamic=True)
        for batch in (2, 5, 7):
            y = torch.randn(batch, 12, generator=torch.Generator().manual_seed(batch))
            lam = torch.tensor(-0.2)
            results = []
            for f in (function, compiled):
                given, strength = y.clone().requires_grad_(), lam.clone().requires_grad_()
                value = f(given, strength)
                value.backward()
                results.append((value.detach(), given.grad, strength.grad))
            assert_same(results[1], results[0])

    @pytest.mark.slow
    def test_a_network_compiles_to_machine_code(self):
        model = network()
        expected = run(model, images())
        assert_same(run(torch.compile(model, fullgraph=True), images()), expected)


class TestExport:
    pytestmark = COMPILER_NOISE

    def test_a_network_exports_and_runs_in_another_process(self, tmp_path):
        model = network().eval()
        x = images()
        expected = model(x).detach()
        batch = torch.export.Dim("batch", min=2, max=64)
        program = torch.export.export(model, (x,), dynamic_shapes=({0: batch},))
        torch.testing.assert_close(program.module()(x), expected, **CLOSE)
        wider = images(7)
        torch.testing.assert_close(program.module()(wider), model(wider), **CLOSE)

        torch.export.save(program, tmp_path / "network.pt2")
        torch.save({"x": x, "expected": expected}, tmp_path / "numbers.pt")
        code = """
            import sys, torch, ibnn
            folder = sys.argv[1]
            numbers = torch.load(folder + "/numbers.pt")
            model = torch.export.load(folder + "/network.pt2").module()
            torch.testing.assert_close(
                model(numbers["x"]), numbers["expected"], rtol=1e-5, atol=1e-6
            )
            print("the same")
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.stdout.strip() == "the same", done.stderr


class TestFunc:
    def rows(self):
        generator = torch.Generator().manual_seed(2)
        return 0.3 * torch.randn(4, 6, dtype=torch.float64, generator=generator)

    @pytest.mark.parametrize(
        "coupling",
        [ibnn.Uniform(-1), ibnn.Window(3), ibnn.Dense(units=6)],
        ids=str,
    )
    def test_vmap_over_rows_lam_and_slope(self, coupling):
        y = self.rows()
        lam = torch.tensor([-0.5, -0.1, 0.0, 0.05], dtype=torch.float64)
        slope = torch.tensor([1.0, 5.0, 10.0, 9.0], dtype=torch.float64)

        def one(y, lam, slope):
            return ibnn.implicit_bias(y, lam, slope, coupling=coupling)

        found = torch.func.vmap(one)(y, lam, slope)
        expected = torch.stack([one(*args) for args in zip(y, lam, slope, strict=True)])
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
        shared = torch.func.vmap(one, in_dims=(None, 0, None))(y[0], lam, slope[0])
        expected = torch.stack([one(y[0], each, slope[0]) for each in lam])
        torch.testing.assert_close(shared, expected, rtol=0, atol=1e-12)

    @pytest.mark.parametrize(
        "coupling",
        [ibnn.Uniform(-1), ibnn.Window(3), ibnn.Dense(units=6)],
        ids=str,
    )
    def test_jacrev_is_the_inverse_of_j(self, coupling):
        y = self.rows()[0]

        def value(y):
            return ibnn.implicit_bias(y, -0.3, coupling=coupling)

        found = torch.func.jacrev(value)(y)
        expected = torch.autograd.functional.jacobian(value, y)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
        # J itself, from the residual: d residual / dz at the solution
        j = torch.func.jacrev(lambda z: ibnn.residual(z, y, -0.3, coupling=coupling))(value(y))
        identity = torch.eye(6, dtype=torch.float64)
        torch.testing.assert_close(found @ j, identity, rtol=0, atol=1e-10)

    def test_per_sample_gradients_by_vmap_of_grad(self):
        layer = ibnn.Linear(3, 6, lam=-0.2, learn_slope=True).double()
        x = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
        parameters = dict(layer.named_parameters())

        def loss(parameters, x):
            return torch.func.functional_call(layer, parameters, (x,)).square().sum()

        found = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)
        for k in range(4):
            alone = torch.func.grad(loss)(parameters, x[k])
            for name in parameters:
                torch.testing.assert_close(found[name][k], alone[name], rtol=0, atol=1e-10)

    def test_functional_call_uses_the_parameters_it_is_given(self):
        layer = ibnn.Linear(3, 6, lam=0.0)
        other = ibnn.Linear(3, 6, lam=-0.4)
        x = torch.randn(2, 3, generator=torch.Generator().manual_seed(4))
        found = torch.func.functional_call(layer, dict(other.named_parameters()), (x,))
        torch.testing.assert_close(found, other(x))

    def test_a_stack_of_models_runs_as_one(self):
        models = [ibnn.Linear(3, 6, lam=lam) for lam in (-0.4, 0.0, 0.05)]
        parameters, buffers = torch.func.stack_module_state(models)
        x = torch.randn(2, 3, generator=torch.Generator().manual_seed(5))

        def one(parameters, buffers):
            return torch.func.functional_call(models[0], (parameters, buffers), (x,))

        found = torch.func.vmap(one)(parameters, buffers)
        torch.testing.assert_close(found, torch.stack([model(x) for model in models]))

    def test_a_stack_of_learnt_couplings_runs_as_one(self):
        y = self.rows()
        weights = torch.rand(
            3, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(6)
        )
        coupling = ibnn.Dense(weights[0], learnable=True)
        holder = ibnn.ImplicitBias(lam=-0.2, coupling=coupling).double()

        def one(raw):
            return torch.func.functional_call(holder, {"coupling.raw": raw}, (y,))

        found = torch.func.vmap(one)(weights)
        expected = torch.stack([one(raw) for raw in weights])
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


class TestCopies:
    def check(self, model, twin):
        assert_same(run(twin, images()), run(model, images()))
        # a copy has its own record
        first, second = model[0], twin[0]
        before = first.last_solve
        twin(images(2))
        assert first.last_solve is before
        assert second.last_solve is not before

    def test_deepcopy(self):
        model = network()
        model(images())
        self.check(model, copy.deepcopy(model))

    def test_pickle(self):
        model = network()
        model(images())
        self.check(model, pickle.loads(pickle.dumps(model)))

    def test_torch_save(self):
        model = network()
        file = io.BytesIO()
        torch.save(model, file)
        file.seek(0)
        self.check(model, torch.load(file, weights_only=False))

    def test_a_copy_warns_for_itself(self):
        layer = ibnn.Linear(4, 6, lam=-2.0, max_steps=1)
        x = torch.linspace(-1, 1, 8).reshape(2, 4)
        with pytest.warns(ibnn.ConvergenceWarning):
            layer(x)
        with pytest.warns(ibnn.ConvergenceWarning):
            copy.deepcopy(layer)(x)

    def test_a_layer_with_a_sigma_of_ones_own_copies(self):
        layer = ibnn.Linear(4, 6, lam=-0.2, sigma=Softsign())
        x = torch.linspace(-1, 1, 8).reshape(2, 4)
        assert torch.equal(copy.deepcopy(layer)(x), layer(x))
        assert torch.equal(pickle.loads(pickle.dumps(layer))(x), layer(x))


def test_autocast_solves_in_float32_and_returns_bfloat16():
    torch.manual_seed(7)
    layer = ibnn.Conv2d(2, 3, 3, lam=-0.2)
    x = torch.randn(2, 2, 8, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = layer(x)
        y = nn.functional.conv2d(x, layer.weight, layer.bias)
    assert out.dtype == y.dtype == torch.bfloat16
    expected = ibnn.implicit_bias(y.float(), -0.2, coupling=ibnn.Uniform((-2, -1)))
    torch.testing.assert_close(out, expected.bfloat16())
    out.float().square().sum().backward()
    assert layer.weight.grad.dtype == torch.float32
    # bfloat16 has 8 bits: a gradient summed over 72 positions keeps two digits
    reference = ibnn.Conv2d(2, 3, 3, lam=-0.2)
    reference.load_state_dict(layer.state_dict())
    reference(x).square().sum().backward()
    error = (layer.weight.grad - reference.weight.grad).norm() / reference.weight.grad.norm()
    assert error < 0.02


def test_gradient_checkpointing_solves_again_and_agrees():
    model = network()
    x = images().requires_grad_()
    out = torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False)
    grads = torch.autograd.grad(out.square().sum(), [x, *model.parameters()])
    assert_same([out.detach(), *grads], run(model, images()))


DDP = """
    import datetime, os, sys, torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    import ibnn

    rank, folder = int(sys.argv[1]), sys.argv[2]
    dist.init_process_group(
        "gloo", init_method="file://" + folder + "/meeting", rank=rank, world_size=2,
        timeout=datetime.timedelta(seconds=120),
    )
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        ibnn.Conv2d(1, 2, 3, lam=[-0.2, 0.05], learn_slope=True),
        torch.nn.Flatten(),
        ibnn.Linear(72, 4, lam=-0.1, coupling=ibnn.Dense(units=4, learnable=True)),
    )
    parallel = DistributedDataParallel(model)
    x = torch.load(folder + "/x.pt")
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        parallel(x[2 * rank : 2 * rank + 2]).square().mean().backward()
        optimizer.step()
    torch.save(model.state_dict(), f"{folder}/rank{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)  # gloo's threads sometimes abort an interpreter that is being taken down
"""


@pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="torch without gloo")
def test_two_processes_train_as_one(tmp_path):
    x = torch.randn(4, 1, 8, 8, generator=torch.Generator().manual_seed(8))
    torch.save(x, tmp_path / "x.pt")
    code = textwrap.dedent(DDP)
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(rank), str(tmp_path)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for worker in workers:
        _, errors = worker.communicate(timeout=300)
        assert worker.returncode == 0, errors

    torch.manual_seed(0)
    alone = nn.Sequential(
        ibnn.Conv2d(1, 2, 3, lam=[-0.2, 0.05], learn_slope=True),
        nn.Flatten(),
        ibnn.Linear(72, 4, lam=-0.1, coupling=ibnn.Dense(units=4, learnable=True)),
    )
    optimizer = torch.optim.SGD(alone.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        alone(x).square().mean().backward()
        optimizer.step()
    for rank in range(2):
        state = torch.load(tmp_path / f"rank{rank}.pt")
        assert_same(list(state.values()), list(alone.state_dict().values()))
