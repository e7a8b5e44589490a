"""Layers in everyday code: what works after nn.Conv2d and nn.Linear works after ours."""

import copy
import warnings

import pytest
import torch
from torch import nn
from torch.func import hessian, jacfwd, jacrev, jvp

import ibnn

LAMS = pytest.mark.parametrize("lam", [-0.3, 0.0, 0.06])

MATRIX = torch.tensor([[0.1, 0.2, 0.0], [0.3, 0.7, 0.0], [0.0, 0.1, 0.4]])
# couplings with values of their own, which are in a checkpoint only where they are learnt
MADE = pytest.mark.parametrize(
    "made",
    [
        lambda: ibnn.Window(3),
        lambda: ibnn.Window(3, "gaussian", std=0.7),
        lambda: ibnn.Window(3, "gaussian", std=0.7, learnable=True),
        lambda: ibnn.Dense(units=3),
        lambda: ibnn.Dense(MATRIX),
        lambda: ibnn.Dense(units=3, learnable=True),
    ],
    ids=["box", "gaussian", "learnt gaussian", "dense of 1/D", "dense", "learnt dense"],
)


def conv_net(lam: float, activation: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(ibnn.Conv2d(2, 3, 3, lam=lam), activation, ibnn.Conv2d(3, 2, 3, lam=lam))


class TestInPlace:
    @LAMS
    def test_a_relu_in_place_has_the_gradients_of_one_that_copies(self, lam):
        x = torch.randn(4, 2, 9, 9, generator=torch.Generator().manual_seed(1))
        gradients = []
        for inplace in (False, True):
            model = conv_net(lam, nn.ReLU(inplace=inplace))
            model(x).square().sum().backward()
            gradients.append([p.grad for p in model.parameters()])
        torch.testing.assert_close(gradients[0], gradients[1], rtol=0, atol=0)

    @LAMS
    def test_a_residual_connection_added_in_place(self, lam):
        layer = ibnn.Linear(6, 6, lam=lam, learn_slope=True)
        x = torch.randn(5, 6)
        gradients = []
        for add in (lambda out: out + x, lambda out: out.add_(x)):
            layer.zero_grad()
            add(layer(x)).pow(3).sum().backward()
            gradients.append([p.grad.clone() for p in layer.parameters()])
        torch.testing.assert_close(gradients[0], gradients[1], rtol=0, atol=0)

    def test_second_derivatives_survive_it_too(self):
        y = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
        lam = torch.tensor(-0.2, dtype=torch.float64, requires_grad=True)
        slope = torch.tensor(8.0, dtype=torch.float64, requires_grad=True)

        def function(y, lam, slope):
            return ibnn.implicit_bias(y, lam, slope).mul_(2.0)

        torch.autograd.gradcheck(function, (y, lam, slope))
        torch.autograd.gradgradcheck(function, (y, lam, slope))


# torch's own forward mode still uses TorchScript
@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")
class TestForwardMode:
    @pytest.mark.parametrize(
        "coupling", [ibnn.Uniform(-1), ibnn.Window(3), ibnn.Dense(units=5)], ids=str
    )
    @pytest.mark.parametrize("lam", [-0.3, 0.04])
    def test_forward_and_reverse_agree(self, coupling, lam):
        y = torch.randn(5, dtype=torch.float64, generator=torch.Generator().manual_seed(2))

        def function(y, lam, slope):
            return ibnn.implicit_bias(y, lam, slope, coupling=coupling).pow(3)

        point = (y, torch.tensor(lam).double(), torch.tensor(7.0).double())
        arguments = (0, 1, 2)
        forward, reverse = (take(function, arguments)(*point) for take in (jacfwd, jacrev))
        # solved to 1e-12, differentiated to 1e-8
        torch.testing.assert_close(forward, reverse, rtol=1e-8, atol=1e-9)

    def test_a_hessian_is_that_of_two_reverse_passes(self):
        y = torch.randn(4, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
        weights = torch.rand(4, 4, dtype=torch.float64)

        coupling = ibnn.Dense(torch.rand(4, 4, dtype=torch.float64), learnable=True)
        bias = ibnn.ImplicitBias(-0.2, 5.0, coupling=coupling, dtype=torch.float64)

        def function(y, weight):
            call = torch.func.functional_call
            return call(bias, {"coupling.raw": weight}, (y,)).pow(3).sum()

        for argument in (0, 1):
            expected = jacrev(jacrev(function, argument), argument)(y, weights)
            found = hessian(function, argument)(y, weights)
            torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-8)

    @pytest.mark.parametrize("adjoint", ["implicit", "unrolled"])
    def test_forward_mode_inside_forward_mode_is_refused(self, adjoint):
        """It would lose what lam moves (2.503 for 2.600), as with any function of torch's kind."""
        y = torch.linspace(-0.5, 0.4, 4, dtype=torch.float64)

        def function(lam):
            return ibnn.implicit_bias(y, lam, adjoint=adjoint).square().sum()

        lam = torch.tensor(-0.1, dtype=torch.float64)
        with pytest.raises(NotImplementedError, match="use reverse mode for one of the two"):
            jacfwd(jacfwd(function))(lam)
        torch.testing.assert_close(hessian(function)(lam), jacrev(jacrev(function))(lam))

    def test_a_layer_with_learnt_lam_has_tangents(self):
        layer = ibnn.Linear(3, 4, lam=0.05, dtype=torch.float64)
        x, dx = torch.randn(2, 2, 3, dtype=torch.float64)
        tangent = jvp(layer, (x,), (dx,))[1]
        step = 1e-6
        difference = (layer(x + step * dx) - layer(x - step * dx)) / (2 * step)
        torch.testing.assert_close(tangent, difference, rtol=1e-6, atol=1e-8)

    def test_without_gradients_too(self):
        with torch.no_grad():
            ones = (torch.ones(3),)
            tangent = jvp(lambda y: ibnn.implicit_bias(y, -0.1), ones, ones)[1]
        torch.testing.assert_close(tangent, torch.ones(3))


class TestState:
    def test_a_coupling_set_later_is_the_one_that_computes(self):
        layer = ibnn.Conv2d(1, 2, 3, lam=-0.3)
        x = torch.randn(2, 1, 8, 8)
        layer.coupling = ibnn.Window(3)
        fresh = ibnn.Conv2d(1, 2, 3, lam=-0.3, coupling=ibnn.Window(3))
        fresh.load_state_dict(layer.state_dict())
        torch.testing.assert_close(layer(x), fresh(x), rtol=0, atol=0)
        layer.coupling = "channels"
        assert "coupling=channels" in repr(layer)
        assert layer(x).shape == (2, 2, 6, 6)
        with pytest.raises(ValueError, match="coupling='nearby' is not known"):
            layer.coupling = "nearby"
        assert layer.coupling.dims == (-3,)

    def test_a_coupling_across_channels_refuses_a_lam_per_channel(self):
        layer = ibnn.Conv2d(1, 2, 3, lam=[-0.3, 0.0])
        with pytest.raises(ValueError, match="joins channels, which needs one lam"):
            layer.coupling = "layer"
        assert "coupling=space" in repr(layer)

    def test_a_sigma_without_a_threshold_is_refused_where_lam_is_bounded(self):
        layer = ibnn.Linear(4, 6, lam=-0.1)
        x = torch.randn(2, 4)
        before = layer(x)
        with pytest.raises(ValueError, match="sigma peaked is not certified"):
            layer.sigma = "peaked"
        assert layer.sigma.name == "tanh"
        torch.testing.assert_close(layer(x), before, rtol=0, atol=0)
        free = ibnn.Linear(4, 6, lam=-0.1, bounded=False)
        free.sigma = "peaked"
        assert free(x).isfinite().all()

    @pytest.mark.parametrize("bounded", [True, (-1.0, 0.0), False])
    def test_a_layer_elsewhere_than_on_the_default_device(self, bounded):
        x = torch.randn(3, 5)
        with torch.device("meta"):
            layer = ibnn.Linear(5, 4, lam=-0.1, bounded=bounded, device="cpu")
            z = layer(x)
        assert torch.equal(z, layer(x))

    def test_the_default_device_is_respected(self):
        with torch.device("meta"):
            layer = ibnn.Conv2d(1, 2, 3, lam=-0.1)
        assert layer.lam.is_meta
        assert layer.slope.is_meta
        assert "lam=?" in repr(layer)

    @pytest.mark.parametrize("assign", [False, True])
    def test_a_layer_made_on_the_meta_device_is_whole_after_loading(self, assign):
        saved = ibnn.Conv2d(1, 2, 3, lam=-0.25, slope=3.0)
        layer = ibnn.Conv2d(1, 2, 3, slope=3.0, device="meta")
        if not assign:
            layer = layer.to_empty(device="cpu")
        layer.load_state_dict(saved.state_dict(), assign=assign)
        x = torch.randn(1, 1, 6, 6)
        torch.testing.assert_close(layer(x), saved(x), rtol=0, atol=0)

    @MADE
    def test_a_coupling_made_on_the_meta_device_is_whole_after_to_empty(self, made):
        def layer(**place):
            return ibnn.Linear(4, 3, lam=-0.2, coupling=made(), **place)

        torch.manual_seed(0)
        expected = layer()
        with torch.device("meta"):
            inside = layer()
        for empty in (inside, layer(device="meta")):
            assert all(t.is_meta for t in (*empty.parameters(), *empty.buffers()))
            assert torch.equal(empty.implicit_bias, expected.implicit_bias)
            assert repr(empty.coupling) == repr(expected.coupling)
            whole = empty.to_empty(device="cpu")
            # weight and bias are the checkpoint's; what is left is the layer's own
            for name in ("weight", "bias"):
                getattr(whole, name).data.copy_(getattr(expected, name))
            x = torch.randn(2, 4)
            torch.testing.assert_close(whole(x), expected(x), rtol=0, atol=0)

    @MADE
    @pytest.mark.parametrize("learn_slope", [False, True])
    def test_a_coupling_made_on_the_meta_device_is_whole_after_assigning(self, made, learn_slope):
        options = {"lam": -0.2, "learn_slope": learn_slope}
        saved = ibnn.Linear(4, 3, **options, coupling=made()).double()
        layer = ibnn.Linear(4, 3, **options, coupling=made(), device="meta").double()
        layer.load_state_dict(saved.state_dict(), assign=True)
        x = torch.randn(2, 4, dtype=torch.float64)
        torch.testing.assert_close(layer(x), saved(x), rtol=0, atol=0)

    def test_a_checkpoint_of_another_slope_is_refused_on_the_meta_device_too(self):
        state = ibnn.Linear(4, 3, slope=3.0).state_dict()
        with pytest.raises(RuntimeError, match=r"saved with slope=3\.0, but has slope=10\.0"):
            ibnn.Linear(4, 3, device="meta").load_state_dict(state, assign=True)

    def test_a_window_of_one_number_takes_the_dims_of_a_layer_on_the_meta_device(self):
        with torch.device("meta"):
            layer = ibnn.Conv2d(1, 2, 3, coupling=ibnn.Window(3, "gaussian", std=0.7))
        assert layer.to_empty(device="cpu").coupling.std.item() == pytest.approx(0.7)

    @MADE
    def test_a_coupling_stays_where_it_is_when_another_layer_is_made_elsewhere(self, made):
        coupling = made()
        first = ibnn.Linear(4, 3, coupling=coupling)
        elsewhere = ibnn.Linear(4, 3, coupling=coupling, device="meta")
        assert first.coupling is coupling
        assert not any(t.is_meta for t in (*coupling.parameters(), *coupling.buffers()))
        assert all(t.is_meta for t in elsewhere.buffers())
        elsewhere.coupling = coupling
        assert not any(t.is_meta for t in (*coupling.parameters(), *coupling.buffers()))

    @MADE
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_checkpoints_of_half_precision_load_in_full_and_the_reverse(self, made, dtype):
        full = ibnn.Linear(4, 3, lam=-0.2, slope=0.1, coupling=made())
        half = copy.deepcopy(full).to(dtype)
        full.load_state_dict(half.state_dict())
        half.load_state_dict(full.state_dict())
        full.load_state_dict(half.float().state_dict())

    @pytest.mark.parametrize(
        ("saved", "other"),
        [
            (ibnn.Window(3, "gaussian", std=0.7), ibnn.Window(3, "gaussian", std=0.8)),
            (ibnn.Dense(units=3), ibnn.Dense(torch.eye(3))),
        ],
        ids=str,
    )
    def test_another_coupling_of_the_same_kind_is_refused(self, saved, other):
        state = ibnn.Linear(4, 3, coupling=saved).state_dict()
        with pytest.raises(RuntimeError, match="was saved with coupling="):
            ibnn.Linear(4, 3, coupling=other).load_state_dict(state)

    @pytest.mark.parametrize(
        ("other", "said"),
        [
            ({"slope": 10.0}, "was saved with slope=3.0, but has slope=10.0"),
            ({"slope": 3.0, "sigma": "erf"}, "sigma=tanh, but has sigma=erf"),
            ({"slope": 3.0, "coupling": "channels"}, "coupling="),
            ({"slope": 3.0, "coupling": ibnn.Window(3)}, "coupling="),
            ({"slope": 3.0, "solver": "lite"}, "solver=exact, but has solver=lite"),
        ],
    )
    def test_another_layers_checkpoint_is_refused_by_what_differs(self, other, said):
        state = ibnn.Conv2d(1, 2, 3, slope=3.0).state_dict()
        with pytest.raises(RuntimeError, match=said):
            ibnn.Conv2d(1, 2, 3, **other).load_state_dict(state)

    def test_another_way_to_solve_the_same_equation_loads(self):
        state = ibnn.Conv2d(1, 2, 3).state_dict()
        ibnn.Conv2d(1, 2, 3, solver="gradient").load_state_dict(state)

    def test_checkpoints_without_the_record_load(self):
        state = ibnn.Conv2d(1, 2, 3, slope=3.0).state_dict()
        del state["implicit_bias"]
        ibnn.Conv2d(1, 2, 3).load_state_dict(state)

    def test_a_damaged_record_is_named(self):
        state = ibnn.Linear(2, 2).state_dict()
        state["implicit_bias"] = state["implicit_bias"][:5]
        with pytest.raises(RuntimeError, match="cannot be read"):
            ibnn.Linear(2, 2).load_state_dict(state)

    def test_a_standard_checkpoint_says_how_it_is_loaded(self):
        model = nn.Sequential(ibnn.Conv2d(1, 2, 3))
        state = nn.Sequential(nn.Conv2d(1, 2, 3)).state_dict()
        with pytest.raises(RuntimeError, match=r'"0\.lam" .*strict=False'):
            model.load_state_dict(state)
        assert model.load_state_dict(state, strict=False).missing_keys == ["0.lam"]

    def test_the_record_is_a_tensor_that_any_format_holds(self):
        record = ibnn.Conv2d(1, 2, 3, coupling=ibnn.Window(3, "gaussian")).state_dict()
        assert record["implicit_bias"].dtype == torch.uint8
        assert b'"std"' in bytes(record["implicit_bias"].tolist())


class TestLayouts:
    @pytest.mark.parametrize("coupling", ["space", "channels", "layer"])
    def test_channels_last_stays_channels_last(self, coupling):
        layer = ibnn.Conv2d(3, 4, 3, lam=-0.2, coupling=coupling)
        x = torch.randn(2, 3, 8, 8)
        expected = layer(x)
        assert expected.is_contiguous()
        last = layer.to(memory_format=torch.channels_last)(x.to(memory_format=torch.channels_last))
        assert last.is_contiguous(memory_format=torch.channels_last)
        torch.testing.assert_close(last, expected, rtol=1e-5, atol=1e-5)

    def test_channels_last_becomes_contiguous_where_that_is_asked_for(self):
        layer = ibnn.Conv2d(3, 4, 3, lam=-0.2).to(memory_format=torch.channels_last)
        x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last).requires_grad_()
        kept = layer(x)
        (of_kept,) = torch.autograd.grad(kept.square().sum(), x)
        layer.keeps_memory_format = False
        z = layer(x)
        assert z.is_contiguous()
        assert not kept.is_contiguous()
        torch.testing.assert_close(z, kept.contiguous(), rtol=0, atol=0)
        (of_z,) = torch.autograd.grad(z.square().sum(), x)
        torch.testing.assert_close(of_z, of_kept)

    def test_channels_last_in_three_dims(self):
        y = torch.randn(1, 2, 5, 5, 5).to(memory_format=torch.channels_last_3d)
        z = ibnn.implicit_bias(y, -0.2, coupling=ibnn.Uniform((-3, -2, -1)))
        assert z.is_contiguous(memory_format=torch.channels_last_3d)


class TestOtherPartsOfTorch:
    def test_a_batch_norm_is_not_fused_into_it(self):
        conv, norm = ibnn.Conv2d(1, 2, 3, lam=-0.2).eval(), nn.BatchNorm2d(2).eval()
        with pytest.raises(RuntimeError, match="cannot be fused into a layer with an implicit"):
            nn.utils.fusion.fuse_conv_bn_eval(conv, norm)

    @pytest.mark.filterwarnings("ignore::DeprecationWarning")
    def test_torchscript_says_what_to_use_instead(self):
        model = nn.Sequential(ibnn.Conv2d(1, 2, 3), nn.ReLU())
        with pytest.raises(RuntimeError, match=r"torch\.jit\.script cannot compile Conv2d"):
            torch.jit.script(model)
        with pytest.raises(RuntimeError, match=r"torch\.jit\.trace, .* cannot record an implicit"):
            torch.jit.trace(model, torch.randn(1, 1, 6, 6))

    def test_fx_records_a_layer_as_one_call(self):
        model = nn.Sequential(ibnn.Conv2d(1, 2, 3, lam=-0.2), nn.ReLU(), nn.Flatten())
        model.append(ibnn.Linear(32, 4, lam=-0.2))
        model.append(ibnn.ImplicitBias(-0.1))
        traced = torch.fx.symbolic_trace(model)
        calls = [node.target for node in traced.graph.nodes if node.op == "call_module"]
        assert calls == ["0", "1", "2", "3", "4"]
        x = torch.randn(2, 1, 6, 6)
        torch.testing.assert_close(traced(x), model(x), rtol=0, atol=0)

    @pytest.mark.parametrize("size", [None, [5, 5]], ids=["default size", "own size"])
    def test_fx_records_the_output_size_of_a_transposed_convolution(self, size):
        class Upsampling(nn.Module):
            def __init__(self):
                super().__init__()
                self.up = ibnn.ConvTranspose2d(1, 2, 2, stride=2, lam=-0.2)

            def forward(self, x):
                return self.up(x, output_size=size)

        model, x = Upsampling(), torch.randn(2, 1, 2, 2)
        traced = torch.fx.symbolic_trace(model)
        torch.testing.assert_close(traced(x), model(x), rtol=0, atol=0)


class TestLamOneCanTrust:
    def test_a_sign_can_be_kept(self):
        layer = ibnn.Linear(4, 6, lam=-0.1, bounded=(-1.0, 0.0))
        optimizer = torch.optim.SGD([layer.lam], lr=1.0)
        x = torch.randn(8, 4)
        for _ in range(30):
            optimizer.zero_grad()
            (-layer(x).var(-1).sum()).backward()  # more spread wants a larger lam
            optimizer.step()
        assert layer.effective_lam.item() == 0.0
        with torch.no_grad():
            layer.lam.fill_(-3.0)
        assert layer.effective_lam.item() == -1.0
        assert "lam=-3 acting as -1 (learnt), bounded=(-1.0, 0.0)" in repr(layer)

    def test_a_bound_above_the_threshold_is_cut(self):
        with pytest.warns(ibnn.ThresholdWarning, match=r"lam=0\.5 is used as 0\.095"):
            layer = ibnn.Linear(4, 6, lam=0.5, bounded=(0.0, 0.9))
        assert layer.effective_lam.item() == pytest.approx(0.095)

    @pytest.mark.parametrize("bounded", [(0.1, -0.1), (1.0,), "yes", None])
    def test_bounds_are_checked(self, bounded):
        with pytest.raises(ValueError, match="bounded must be True, False or"):
            ibnn.Linear(2, 2, bounded=bounded)

    @pytest.mark.parametrize("kind", [tuple, list, torch.tensor])
    def test_a_fixed_lam_must_lie_within(self, kind):
        with pytest.raises(ValueError, match="outside of bounded"):
            ibnn.Linear(2, 2, lam=0.05, learn_lam=False, bounded=kind((-1.0, 0.0)))

    @pytest.mark.parametrize("kind", [tuple, list, torch.tensor])
    def test_bounds_are_a_pair_of_floats_however_they_were_written(self, kind):
        layer = ibnn.Linear(2, 2, lam=-0.1, bounded=kind((-1, 0)))
        assert layer.bounded == (-1.0, 0.0)
        assert "bounded=(-1.0, 0.0)" in repr(layer)

    def test_converting_above_the_threshold_warns(self):
        with pytest.warns(ibnn.ThresholdWarning, match=r"lam=5 is above the threshold 0\.1"):
            ibnn.convert(nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)), lam=5.0)


class TestWarningsThatHelp:
    def hopeless(self) -> nn.Module:
        model = nn.Sequential()
        layer = ibnn.Linear(4, 6, lam=-2.0, solver="picard", max_steps=2)
        model.add_module("features", nn.Sequential(nn.Tanh(), layer))
        return model

    def test_a_warning_names_the_layer_and_the_users_own_line(self):
        model = self.hopeless()
        with pytest.warns(ibnn.ConvergenceWarning) as caught:
            model(torch.randn(3, 4))
        assert "layer 'features.1' (Linear): 3 of 3 rows did not converge" in str(caught[0].message)
        assert caught[0].filename == __file__

    def test_an_error_names_it_too(self):
        model = self.hopeless()
        model.features[1].on_failure = "raise"
        with pytest.raises(ibnn.ConvergenceError, match=r"layer 'features\.1' \(Linear\)"):
            model(torch.randn(3, 4))

    def test_a_layer_warns_once_and_its_copy_once_more(self):
        model = self.hopeless()
        with pytest.warns(ibnn.ConvergenceWarning):
            model(torch.randn(3, 4))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model(torch.randn(3, 4))
        with pytest.warns(ibnn.ConvergenceWarning):
            copy.deepcopy(model)(torch.randn(3, 4))


@pytest.mark.parametrize(
    "coupling", [ibnn.Uniform((-2, -1)), ibnn.Uniform(-3), ibnn.Window((3, 3))], ids=str
)
def test_memory_of_a_solve_is_neither_the_callers_nor_what_gradients_are_made_of(coupling):
    generator = torch.Generator().manual_seed(0)
    images, g, h = (torch.randn((3, 5, 12, 12), generator=generator) for _ in range(3))
    found = []
    for memory_format in (torch.contiguous_format, torch.channels_last):
        y = images.clone(memory_format=memory_format).requires_grad_()
        z = ibnn.ImplicitBias(lam=-0.1, coupling=coupling)(y)
        z.relu_()
        (first,) = torch.autograd.grad((z * g).sum(), y, create_graph=True)
        (second,) = torch.autograd.grad((first * h).sum(), y)
        assert torch.equal(y, images)
        found.append((z.detach(), first.detach(), second))
    for plain, last in zip(*found, strict=True):
        torch.testing.assert_close(last, plain, rtol=0, atol=1e-6 * float(plain.abs().max()))


@pytest.mark.parametrize("lam", [0.0, -0.1, 0.08])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_using_the_memory_of_its_own_map_changes_neither_output_nor_gradients(lam, dtype):
    """A layer keeps slope * z where its convolution's output was; a function of y must not."""
    torch.manual_seed(0)
    layer = ibnn.Conv2d(2, 3, 3, padding=1, lam=lam).to(dtype)
    x = torch.randn(4, 2, 12, 12, dtype=dtype, requires_grad=True)
    g = torch.randn(4, 3, 12, 12, dtype=dtype)
    leaves = (x, layer.weight, layer.bias, layer.lam)
    z = layer(x)
    found = torch.autograd.grad(z, leaves, g, retain_graph=True)
    again = torch.autograd.grad(z, leaves, g)
    y = nn.functional.conv2d(x, layer.weight, layer.bias, padding=1)
    before = y.detach().clone()
    slope = layer.effective_slope.to(dtype)
    expected = ibnn.implicit_bias(y, layer.lam, slope, coupling=ibnn.Uniform(dims=(-2, -1)))
    assert torch.equal(y, before)  # the caller's own
    assert torch.equal(z, expected)
    wanted = torch.autograd.grad(expected, leaves, g)
    for one, two, three in zip(found, again, wanted, strict=True):
        assert torch.equal(one, two)
        torch.testing.assert_close(one, three)


def test_an_implicit_bias_on_its_own_leaves_its_input_alone():
    y = torch.randn(4, 300, requires_grad=True)
    before = y.detach().clone()
    ibnn.ImplicitBias(lam=-0.1)(y).sum().backward()
    assert torch.equal(y, before)


def test_a_method_of_ones_own_in_place_of_the_bias_sees_y_unchanged():
    class Noting(ibnn.Linear):
        def add_implicit_bias(self, y):
            z = super().add_implicit_bias(y)
            self.y = y  # read after the solve
            return z

    layer = Noting(5, 200, lam=-0.1)
    x = torch.randn(3, 5)
    layer(x).sum().backward()
    assert torch.equal(layer.y, nn.functional.linear(x, layer.weight, layer.bias))


def test_bounds_set_later_are_checked_as_the_constructor_checks_them():
    layer = ibnn.Linear(3, 4, sigma="peaked", bounded=False)
    with pytest.raises(ValueError, match="not certified"):
        layer.bounded = True
    with pytest.raises(ValueError, match="bounded must be"):
        layer.bounded = (0.1, -0.1)
    assert layer.bounded is False
    other = ibnn.Linear(3, 4, lam=-0.1)
    other.bounded = [-1, -0.2]
    assert other.bounded == (-1.0, -0.2)
    assert float(other.effective_lam.detach()) == pytest.approx(-0.2)
