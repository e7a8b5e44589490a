"""What torch's documentation does with nn.Linear and nn.Conv2d, done with ours: the same result, or
one line that says why not."""

import copy
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.utils import parametrizations, parametrize, prune
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

import ibnn


def linear(**options) -> ibnn.Linear:
    torch.manual_seed(0)
    return ibnn.Linear(5, 4, lam=-0.2, **options)


def batch(rows: int = 3) -> torch.Tensor:
    return torch.randn(rows, 5, generator=torch.Generator().manual_seed(1))


def check_as_parent(ours: nn.Linear, theirs: nn.Linear) -> None:
    """z is F of what the parent computes, and the gradients of a step are finite."""
    x = batch()
    expected = ibnn.implicit_bias(theirs(x), -0.2)
    torch.testing.assert_close(ours(x), expected, rtol=0, atol=1e-6)
    ours(x).square().sum().backward()
    assert all(p.grad.isfinite().all() for p in ours.parameters())


class TestWhatChangesWeights:
    @pytest.mark.parametrize(
        "change",
        [parametrizations.weight_norm, parametrizations.spectral_norm, nn.utils.spectral_norm],
        ids=["weight norm", "spectral norm", "the older spectral norm"],
    )
    def test_norms_of_weights(self, change):
        ours, theirs = linear(), nn.Linear(5, 4)
        theirs.load_state_dict({name: ours.state_dict()[name] for name in ("weight", "bias")})
        # spectral norms start from random vectors, and move them while training
        torch.manual_seed(3)
        ours = change(ours).eval()
        torch.manual_seed(3)
        theirs = change(theirs).eval()
        check_as_parent(ours, theirs)

    def test_parametrizations_also_of_lam_come_and_go(self):
        class Negative(nn.Module):
            def forward(self, value):
                return -value.abs()

        layer = ibnn.Linear(5, 4, lam=0.05)
        parametrize.register_parametrization(layer, "lam", Negative())
        torch.testing.assert_close(layer(batch()), copy.deepcopy(layer)(batch()), rtol=0, atol=0)
        assert layer.effective_lam.item() == pytest.approx(-0.05)
        layer(batch()).square().sum().backward()
        assert layer.parametrizations.lam.original.grad != 0
        parametrize.remove_parametrizations(layer, "lam")
        assert isinstance(layer, ibnn.Linear)
        assert layer.lam.item() == pytest.approx(-0.05)

    def test_pruning(self):
        ours = linear()
        prune.l1_unstructured(ours, "weight", 0.5)
        theirs = nn.Linear(5, 4)
        theirs.weight, theirs.bias = nn.Parameter(ours.weight_orig * ours.weight_mask), ours.bias
        check_as_parent(ours, theirs)
        prune.remove(ours, "weight")
        assert (ours.weight == 0).sum() == 10

    @pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*quantize:UserWarning")
    def test_dynamic_quantization_leaves_it_in_full_precision(self):
        model = nn.Sequential(linear(), nn.ReLU(), nn.Linear(4, 2))
        quantized = torch.ao.quantization.quantize_dynamic(model, {nn.Linear})
        torch.testing.assert_close(quantized[0](batch()), model[0](batch()), rtol=0, atol=0)
        assert type(quantized[0]) is ibnn.Linear
        assert type(quantized[2]) is not nn.Linear


class TestDerivatives:
    def test_batched_gradients(self):
        """Many gradients in one backward pass, torch's older vmap: a row of the Jacobian each."""
        y = torch.randn(6, dtype=torch.float64, requires_grad=True)
        z = ibnn.implicit_bias(y, -0.2)
        (rows,) = torch.autograd.grad(z, y, torch.eye(6).double(), is_grads_batched=True)
        torch.testing.assert_close(
            rows, torch.func.jacrev(lambda y: ibnn.implicit_bias(y, -0.2))(y)
        )

    @pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")
    @pytest.mark.parametrize("coupling", [ibnn.Uniform(-1), ibnn.Window(3), ibnn.Dense(units=4)])
    def test_everything_that_gradcheck_can_check(self, coupling):
        layer = linear(coupling=coupling, learn_slope=True).double()
        x = batch(2).double().requires_grad_()
        modes = ("forward_ad", "batched_grad", "batched_forward_grad", "undefined_grad")
        torch.autograd.gradcheck(layer, (x,), **{f"check_{mode}": True for mode in modes})
        torch.autograd.gradgradcheck(layer, (x,), check_batched_grad=True)

    @pytest.mark.filterwarnings("ignore:Anomaly Detection:UserWarning")
    def test_anomaly_detection_and_hooks(self):
        layer, seen = linear(), []
        layer.register_forward_pre_hook(lambda *_: seen.append("before"))
        layer.register_forward_hook(lambda _module, _inputs, z: seen.append("after") or 2 * z)
        layer.register_full_backward_hook(lambda *_: seen.append("backward"))
        layer.lam.register_post_accumulate_grad_hook(lambda _: seen.append("lam"))
        x = batch().requires_grad_()
        with torch.autograd.detect_anomaly():
            layer(x).square().sum().backward()
        assert seen == ["before", "after", "lam", "backward"]

    def test_saved_tensors_may_wait_elsewhere(self):
        gradients = []
        for hooks in (torch.autograd.graph.save_on_cpu(), torch.enable_grad()):
            layer = linear()
            with hooks:
                loss = layer(batch()).square().sum()
            loss.backward()
            gradients.append(layer.lam.grad)
        assert gradients[0] == gradients[1]

    @pytest.mark.parametrize("coupling", [None, ibnn.Window(3, "gaussian", learnable=True)])
    def test_functional_call_takes_a_whole_state_dict(self, coupling):
        layer, other = linear(coupling=coupling), ibnn.Linear(5, 4, lam=0.05, coupling=coupling)
        model = nn.Sequential(layer, nn.ReLU())
        before = {name: value.clone() for name, value in model.state_dict().items()}
        state = {f"0.{name}": value for name, value in other.state_dict().items()}
        found = torch.func.functional_call(model, state, (batch(),))
        torch.testing.assert_close(found, other(batch()).relu(), rtol=0, atol=0)
        torch.testing.assert_close(dict(model.state_dict()), before, rtol=0, atol=0)

    def test_the_record_of_a_layer_cannot_be_replaced_by_anything_else(self):
        with pytest.raises(AttributeError, match="implicit_bias cannot be set to 3"):
            linear().implicit_bias = 3

    def test_vmap_over_any_dim_of_inputs_and_parameters(self):
        layer, x = linear(), batch()
        parameters = {name: p.detach() for name, p in layer.named_parameters()}

        def call(parameters, x):
            return torch.func.functional_call(layer, parameters, (x,))

        found = torch.vmap(call, in_dims=(None, 1), out_dims=1)(parameters, x.T)
        torch.testing.assert_close(found, layer(x).T, rtol=0, atol=1e-6)
        lams = torch.tensor([-0.2, 0.05])
        by_lam = torch.vmap(call, in_dims=({"weight": None, "bias": None, "lam": 0}, None))
        several = by_lam({**parameters, "lam": lams}, x)
        y = nn.functional.linear(x, layer.weight, layer.bias)
        for lam, z in zip(lams, several, strict=True):
            torch.testing.assert_close(z, ibnn.implicit_bias(y, lam), rtol=0, atol=1e-6)

    @pytest.mark.filterwarnings("ignore::DeprecationWarning")
    @pytest.mark.parametrize("coupling", ["space", "layer", ibnn.Window(3)], ids=str)
    def test_vmap_over_models_of_channels_last_images(self, coupling):
        models = [ibnn.Conv2d(2, 3, 3, lam=lam, coupling=coupling) for lam in (-0.2, 0.05)]
        x = torch.randn(4, 2, 6, 6).to(memory_format=torch.channels_last)

        def call(parameters, x):
            return torch.func.functional_call(models[0], parameters, (x,))

        parameters, _ = torch.func.stack_module_state(models)
        found = torch.vmap(call, in_dims=(0, None))(parameters, x)
        for model, z in zip(models, found, strict=True):
            torch.testing.assert_close(z, model(x), rtol=0, atol=1e-6)
        z = torch.func.vjp(models[0], x)[0]
        assert z.is_contiguous(memory_format=torch.channels_last)
        lam = models[0].lam.detach()
        curved = torch.func.hessian(lambda lam: call({"lam": lam}, x).square().sum())(lam)
        assert curved.isfinite()

    @pytest.mark.parametrize("coupling", [None, ibnn.Window(3)], ids=str)
    def test_vmap_over_nothing(self, coupling):
        """As torch's own layers take it: the last chunk of a data set."""
        y, lam = torch.zeros(0, 2, 4), torch.zeros(0)
        call = torch.func.grad(lambda lam, y: ibnn.implicit_bias(y, lam, coupling=coupling).sum())
        assert torch.vmap(call)(lam, y).shape == (0,)

    @pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Attempted:UserWarning")
    def test_tangents_of_a_learnt_slope_in_float32(self):
        """Its bounds and those of lam are quotients of numbers, whose tangents torch.func.jvp gives
        in float64."""
        layer, x = linear(learn_slope=True), batch()
        at = {name: p.detach() for name, p in layer.named_parameters()}
        step = {name: torch.full_like(p, 0.5) for name, p in at.items()}
        exact = copy.deepcopy(layer).double()

        def call(module, parameters, x):
            return torch.func.functional_call(module, parameters, (x,))

        def moved(size):
            there = {name: at[name].double() + size * step[name] for name in at}
            return call(exact, there, x.double())

        # 1e-8 of third order, and the rounding of doubles over the step
        expected = ((moved(1e-4) - moved(-1e-4)) / 2e-4).float()
        found = torch.func.jvp(lambda p: call(layer, p, x), (at,), (step,))[1]
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
        _, product = torch.func.linearize(lambda p: call(layer, p, x), at)
        torch.testing.assert_close(product(step), found, rtol=0, atol=1e-6)

    @pytest.mark.filterwarnings("ignore::DeprecationWarning")
    def test_a_hessian_of_all_parameters_in_float32(self):
        """Forward over reverse, through a map whose tangents are made by torch's own ops."""
        layer, x = linear(learn_slope=True, solver="lite"), batch()
        at = {name: p.detach() for name, p in layer.named_parameters()}

        def loss(parameters):
            return torch.func.functional_call(layer, parameters, (x,)).square().sum()

        found = torch.func.hessian(loss)(at)
        expected = torch.func.jacrev(torch.func.jacrev(loss))(at)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)

    def test_a_mode_that_watches_changes_nothing_that_is_saved(self):
        """As a counter of operations, in one of the two passes of a checkpoint."""
        layer, x = linear(), batch().requires_grad_()
        with FlopCounterMode(display=False):
            z = checkpoint(layer, x, use_reentrant=False)
        (found,) = torch.autograd.grad(z.square().sum(), x)
        (expected,) = torch.autograd.grad(layer(x).square().sum(), x)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


class TestPrecisionAndPlace:
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_autocast_in_a_network_with_operations_in_place(self, dtype):
        model = nn.Sequential(linear(), nn.ReLU(inplace=True), ibnn.Linear(4, 3, lam=-0.1))
        expected = model(batch())
        with torch.autocast("cpu", dtype=dtype):
            z = model(batch())
        assert z.dtype == dtype
        # of half precision before the solve, whose map does not enlarge distances
        torch.testing.assert_close(z.float(), expected, rtol=0, atol=8 * torch.finfo(dtype).eps)
        z.float().sum().backward()
        assert model[0].lam.grad.dtype == torch.float32

    def test_another_default_dtype(self):
        torch.set_default_dtype(torch.float64)
        try:
            layer = linear()
        finally:
            torch.set_default_dtype(torch.float32)
        assert layer.lam.dtype == layer.slope.dtype == torch.float64
        assert layer(batch().double()).dtype == torch.float64

    @pytest.mark.parametrize("engine", ["native", "portable"])
    @pytest.mark.parametrize("coupling", [ibnn.Uniform(-1), ibnn.Window(3), ibnn.Dense(units=4)])
    def test_deterministic_algorithms_are_enough(self, coupling, engine):
        layer = linear(coupling=coupling, engine=engine)
        torch.use_deterministic_algorithms(True)
        try:
            results = []
            for _ in range(2):
                layer.zero_grad()
                z = layer(batch())
                z.square().sum().backward()
                results.append((z, layer.weight.grad.clone(), layer.lam.grad.clone()))
        finally:
            torch.use_deterministic_algorithms(False)
        torch.testing.assert_close(*results, rtol=0, atol=0)

    @pytest.mark.parametrize("coupling", [None, ibnn.Window(3, "gaussian")], ids=str)
    def test_on_the_meta_device_shapes_are_computed(self, coupling):
        layer = ibnn.Conv2d(2, 3, 3, lam=-0.1, coupling=coupling, device="meta")
        z = layer(torch.empty(4, 2, 8, 8, device="meta"))
        assert z.shape == (4, 3, 6, 6)
        z.sum().backward()
        assert layer.lam.grad.is_meta

    @pytest.mark.parametrize(
        "options",
        [{}, {"bounded": (-1.0, 0.0)}, {"learn_slope": True}, {"coupling": ibnn.Window(3)}],
        ids=str,
    )
    def test_fake_tensors_have_shapes_and_leave_a_layer_as_it_was(self, options):
        layer = linear(**options)
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            z = layer(mode.from_tensor(batch()))
            z.sum().backward()
        assert z.shape == (3, 4)
        torch.testing.assert_close(layer(batch()), linear(**options)(batch()), rtol=0, atol=0)

    @pytest.mark.parametrize("solver", ["newton", "lite"])
    @pytest.mark.parametrize("coupling", [None, ibnn.Window(3), ibnn.Dense(units=4)], ids=str)
    def test_views_that_are_negated_when_read(self, coupling, solver):
        """Such as the imaginary part of a conjugate."""
        y, g = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
        results = []
        for view in (torch.ops.aten._neg_view, torch.neg):
            at = view(y).requires_grad_()
            z = ibnn.implicit_bias(at, -0.1, coupling=coupling, solver=solver)
            results.append((z, torch.autograd.grad(z, at, view(g))[0]))
        torch.testing.assert_close(*results, rtol=0, atol=1e-6)

    @pytest.mark.parametrize("solver", ["newton", "lite"])
    def test_zeros_without_memory(self, solver):
        """As forward mode has them."""
        nothing = torch.ops.aten._efficientzerotensor([3, 4])
        y = torch.randn(3, 4, requires_grad=True)
        z = ibnn.implicit_bias(y, -0.1, solver=solver)
        assert not torch.autograd.grad(z, y, nothing)[0].any()
        assert not ibnn.implicit_bias(nothing, -0.1, solver=solver).any()

    def test_complex_units_are_refused(self):
        with pytest.raises(TypeError, match=r"dtype must be real .*, got torch\.complex64"):
            ibnn.Linear(5, 4, dtype=torch.complex64)
        with pytest.warns(UserWarning, match="Complex modules"):
            layer = linear().to(torch.complex64)
        with pytest.raises(TypeError, match=r"units must be real, .*; got torch\.complex64"):
            layer(batch().to(torch.complex64))

    @pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
    def test_nested_tensors_are_refused_with_what_to_write(self):
        layer = linear()
        x = torch.nested.nested_tensor([batch(2), batch(3)], layout=torch.jagged)
        with pytest.raises(TypeError, match=r"nested_tensor_from_jagged\(layer\(y\.values"):
            layer(x)
        z = torch.nested.nested_tensor_from_jagged(layer(x.values()), x.offsets())
        torch.testing.assert_close(z[1], layer(batch(3)), rtol=0, atol=1e-6)

    def test_inference_mode_leaves_a_layer_that_can_be_trained(self):
        layer = linear()
        with torch.inference_mode():
            assert layer(batch()).is_inference()
        layer(batch()).sum().backward()

    def test_skip_init_leaves_lam_and_slope_as_given(self):
        layer = nn.utils.skip_init(ibnn.Conv2d, 1, 2, 3, lam=-0.25, slope=3.0)
        assert (layer.lam.item(), layer.slope.item()) == (-0.25, 3.0)


class TestManyProcesses:
    def test_distributed_checkpoints(self):
        model, other = nn.Sequential(linear()), nn.Sequential(ibnn.Linear(5, 4, lam=0.03))
        set_model_state_dict(other, get_model_state_dict(model))
        torch.testing.assert_close(other(batch()), model(batch()), rtol=0, atol=0)
        with pytest.raises(RuntimeError, match=r"saved with slope=10\.0, but has slope=3\.0"):
            set_model_state_dict(nn.Sequential(linear(slope=3.0)), get_model_state_dict(model))

    @pytest.mark.filterwarnings("ignore")
    def test_sharded_data_parallelism_takes_lam_as_a_list_of_one(self, tmp_path):
        """`fully_shard` refuses parameters without a dim, in a line that names lam."""
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1
        )
        try:
            mesh = init_device_mesh("cpu", (1,))
            with pytest.raises(ValueError, match="Change lam to a 1D tensor"):
                torch.distributed.fsdp.fully_shard(linear(), mesh=mesh)
            model = nn.Sequential(ibnn.Conv2d(1, 4, 3, lam=[-0.2]), nn.ReLU(inplace=True))
            plain = copy.deepcopy(model)
            torch.distributed.fsdp.fully_shard(model, mesh=mesh)
            x = torch.randn(2, 1, 6, 6)
            for each in (model, plain):
                each(x).square().sum().backward()
            torch.testing.assert_close(model[0].lam.grad.full_tensor(), plain[0].lam.grad)
        finally:
            torch.distributed.destroy_process_group()

    def test_a_forked_worker_of_a_data_loader_solves(self, tmp_path):
        """After a solve of the parent on two threads, of which a fork has one."""
        code = """
            import torch, ibnn
            torch.set_num_threads(2)
            layer = ibnn.Conv2d(3, 16, 3, lam=-0.1).requires_grad_(False)
            x = torch.randn(32, 3, 24, 24)
            expected = layer(x)

            class Solved(torch.utils.data.Dataset):
                __len__ = lambda self: 4
                __getitem__ = lambda self, i: layer(x)[i]

            loader = torch.utils.data.DataLoader(
                Solved(), 2, num_workers=1, timeout=60, multiprocessing_context="fork"
            )
            print((torch.cat(list(loader)) - expected[:4]).abs().max().item())
        """
        environment = {**os.environ, "OMP_NUM_THREADS": "2"}
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            capture_output=True,
            text=True,
            timeout=120,
            env=environment,
        )
        assert float(done.stdout) <= 1e-6, done.stderr

    def test_shared_memory_holds_lam_and_slope(self):
        layer = linear().share_memory()
        assert layer.lam.is_shared()
        assert layer.slope.is_shared()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
class TestExport:
    @pytest.mark.parametrize("strict", [False, True])
    @pytest.mark.parametrize(
        "coupling",
        [
            ibnn.Window(3),
            ibnn.Window(3, "gaussian"),
            ibnn.Window(3, "gaussian", learnable=True),
            ibnn.Dense(units=4),
        ],
        ids=str,
    )
    def test_a_program_computes_as_its_layer(self, coupling, strict):
        layer = linear(coupling=coupling)
        program = torch.export.export(layer, (batch(),), strict=strict)
        torch.testing.assert_close(program.module()(batch()), layer(batch()), rtol=0, atol=0)

    @pytest.mark.parametrize("strict", [False, True])
    def test_a_program_writes_the_record_of_no_layer(self, strict):
        """Its number may be that of another layer, in the process which loads the program."""
        layer = linear()
        layer(batch())
        before = layer.last_solve
        program = torch.export.export(layer, (batch(),), strict=strict)
        program.module()(batch())
        assert layer.last_solve is before
        layer(batch())
        assert layer.last_solve is not before


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_program_loaded_without_ibnn_says_which_module_is_missing(tmp_path: Path):
    program = torch.export.export(linear(), (batch(),))
    torch.export.save(program, tmp_path / "layer.pt2")
    code = f"import torch; torch.export.load({str(tmp_path / 'layer.pt2')!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode
    assert "torch.ops.ibnn.solve" in done.stderr
    assert "import the custom op" in done.stderr
