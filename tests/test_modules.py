"""The layers: their parents' signatures, keys and numbers, and what is added to them."""

import inspect

import numpy as np
import pytest
import torch
from torch import nn

import ibnn
from tests import oracle

PAIRS = [
    (ibnn.Linear, nn.Linear, (5, 7), (4, 5)),
    (ibnn.Conv1d, nn.Conv1d, (2, 3, 3), (4, 2, 9)),
    (ibnn.Conv2d, nn.Conv2d, (2, 3, 3), (4, 2, 6, 7)),
    (ibnn.Conv3d, nn.Conv3d, (2, 3, 2), (4, 2, 4, 3, 5)),
]
KINDS = pytest.mark.parametrize(("layer", "parent", "sizes", "shape"), PAIRS)


def twins(layer, parent, sizes, **options):
    """A layer and its parent, with the same weights."""
    torch.manual_seed(0)
    ours, theirs = layer(*sizes, **options), parent(*sizes)
    missing = ours.load_state_dict(theirs.state_dict(), strict=False)
    return ours, theirs, missing


@KINDS
def test_a_layer_has_its_parents_signature_and_more(layer, parent, sizes, shape):
    ours = list(inspect.signature(layer.__init__).parameters.values())
    theirs = list(inspect.signature(parent.__init__).parameters.values())
    assert [p.name for p in ours[: len(theirs)]] == [p.name for p in theirs]
    assert [p.default for p in ours[: len(theirs)]] == [p.default for p in theirs]
    assert {p.kind for p in ours[len(theirs) :]} == {inspect.Parameter.KEYWORD_ONLY}
    assert issubclass(layer, parent)
    assert isinstance(layer(*sizes), parent)


@KINDS
@pytest.mark.parametrize("learn_lam", [True, False])
def test_lam_zero_is_the_parent_bit_by_bit(layer, parent, sizes, shape, learn_lam):
    ours, theirs, _ = twins(layer, parent, sizes, learn_lam=learn_lam)
    x = torch.randn(shape)
    grads = []
    for module in (ours, theirs):
        given = x.clone().requires_grad_()
        out = module(given)
        out.square().sum().backward()
        grads.append((out, given.grad, module.weight.grad, module.bias.grad))
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))
    assert ours.last_solve.steps == 0
    assert ours.last_solve.converged == 1
    if learn_lam:
        assert ours.lam.grad != 0  # lam can leave 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
@KINDS
def test_lam_zero_is_the_parent_in_every_precision(layer, parent, sizes, shape, dtype):
    ours, theirs, _ = twins(layer, parent, sizes)
    ours, theirs, x = ours.to(dtype), theirs.to(dtype), torch.randn(shape).to(dtype)
    out = ours(x)
    assert out.dtype == dtype
    assert torch.equal(out, theirs(x))


@KINDS
def test_keys_are_the_parents_plus_lam(layer, parent, sizes, shape):
    ours, theirs, missing = twins(layer, parent, sizes)
    assert set(ours.state_dict()) == {*theirs.state_dict(), "lam", "implicit_bias"}
    assert missing.missing_keys == ["lam"]
    assert missing.unexpected_keys == []
    fixed = layer(*sizes, learn_lam=False)
    assert set(fixed.state_dict()) == {*theirs.state_dict(), "lam", "implicit_bias"}
    both = layer(*sizes, learn_slope=True)
    parameters = {name for name, _ in both.named_parameters()}
    assert parameters == {*theirs.state_dict(), "lam", "slope"}
    assert set(both.state_dict()) == {*parameters, "implicit_bias"}


def test_a_checkpoint_comes_back_with_its_lam():
    saved = ibnn.Conv2d(2, 3, 3, lam=[0.01, -0.2, 0.03], learn_slope=True, slope=7.0)
    loaded = ibnn.Conv2d(2, 3, 3, lam=[0.0] * 3, learn_slope=True)
    loaded.load_state_dict(saved.state_dict())
    x = torch.randn(2, 2, 6, 6)
    assert torch.equal(loaded(x), saved(x))


def test_learnt_coupling_weights_are_saved_with_the_layer():
    window = ibnn.Conv2d(2, 3, 3, coupling=ibnn.Window(3, "gaussian", learnable=True))
    assert set(window.state_dict()) == {
        *("weight", "bias", "lam", "implicit_bias"),
        "coupling.std",
    }
    dense = ibnn.Linear(4, 6, coupling=ibnn.Dense(units=6, learnable=True), lam=-0.2)
    assert "coupling.raw" in dense.state_dict()
    dense(torch.randn(3, 4)).square().sum().backward()
    assert dense.coupling.raw.grad.abs().max() > 0


COUPLINGS = {"space": (2, 3), "channels": (1,), "layer": (1, 2, 3)}


@pytest.mark.parametrize("name", COUPLINGS)
@pytest.mark.parametrize("lam", [-0.3, 0.06])
def test_named_couplings_are_the_oracles(name, lam):
    dims = COUPLINGS[name]
    torch.manual_seed(1)
    layer = ibnn.Conv2d(2, 4, 3, lam=lam, coupling=name, dtype=torch.float64)
    x = torch.randn(2, 2, 6, 5, dtype=torch.float64)
    y = nn.functional.conv2d(x, layer.weight, layer.bias).detach()
    z = layer(x).detach()
    rows = [d for d in range(4) if d not in dims]
    shape = int(np.prod([y.shape[d] for d in rows])), -1
    flat_y = y.permute(*rows, *dims).reshape(shape).numpy()
    flat_z = z.permute(*rows, *dims).reshape(shape).numpy()
    for yk, zk in zip(flat_y, flat_z, strict=True):
        np.testing.assert_allclose(
            zk, oracle.solve_row(yk, layer.lam.item(), 10.0), atol=1e-10, rtol=0
        )


@pytest.mark.parametrize(("conv", "dims"), [(ibnn.Conv1d, 1), (ibnn.Conv2d, 2), (ibnn.Conv3d, 3)])
def test_names_mean_the_same_in_every_convolution(conv, dims):
    spatial = tuple(range(-dims, 0))
    assert conv(1, 1, 3).coupling.dims == spatial
    assert conv(1, 1, 3, coupling="space").coupling.dims == spatial
    assert conv(1, 1, 3, coupling="channels").coupling.dims == (-dims - 1,)
    assert conv(1, 1, 3, coupling="layer").coupling.dims == (-dims - 1, *spatial)


def test_a_convolution_without_a_batch_dim(generator):
    layer = ibnn.Conv2d(2, 3, 3, lam=[-0.1, 0.0, 0.05])
    x = torch.randn(1, 2, 6, 6, generator=generator)
    torch.testing.assert_close(layer(x[0]), layer(x)[0])


def test_lam_and_slope_per_channel_act_on_their_channel():
    torch.manual_seed(2)
    lam, slope = [-0.5, 0.0, 0.05], [1.0, 10.0, 12.0]
    layer = ibnn.Conv2d(2, 3, 3, lam=lam, slope=slope, dtype=torch.float64)
    x = torch.randn(4, 2, 6, 6, dtype=torch.float64)
    y, z = nn.functional.conv2d(x, layer.weight, layer.bias), layer(x)
    for k in range(3):
        alone = ibnn.implicit_bias(y[:, k], lam[k], slope[k], coupling=ibnn.Uniform((-2, -1)))
        torch.testing.assert_close(z[:, k], alone, rtol=0, atol=1e-12)
    z.square().sum().backward()
    assert layer.lam.grad.shape == (3,)
    assert (layer.lam.grad != 0).all()


def test_one_lam_with_a_slope_per_channel_is_bounded_per_channel():
    with pytest.warns(ibnn.ThresholdWarning, match=r"lam=0\.5 is used as 0\.095"):
        layer = ibnn.Conv2d(1, 2, 3, lam=0.5, slope=[1.0, 10.0], learn_lam=True)
    torch.testing.assert_close(layer.effective_lam, torch.tensor([0.5, 0.095]))
    layer(torch.randn(2, 1, 5, 5)).sum().backward()


def test_a_learnt_lam_acts_as_at_most_95_percent_of_the_threshold():
    with pytest.warns(ibnn.ThresholdWarning, match=r"lam=0\.5 is used as 0\.095"):
        layer = ibnn.Linear(4, 6, lam=0.5)
    assert layer.effective_lam.item() == pytest.approx(0.095, rel=1e-6)
    assert layer.lam.item() == 0.5
    assert "lam=0.5 acting as 0.095 (learnt)" in repr(layer)
    for above in ({"bounded": False}, {"learn_lam": False}):
        with pytest.warns(ibnn.ThresholdWarning, match=r"above the threshold 0\.1"):
            layer = ibnn.Linear(4, 6, lam=0.5, **above)
        assert layer.effective_lam.item() == 0.5
    assert ibnn.Linear(4, 6, lam=-9.0).effective_lam.item() == -9.0


def test_gradients_lead_a_lam_that_left_back_in_and_no_further_out():
    with pytest.warns(ibnn.ThresholdWarning):
        layer = ibnn.ImplicitBias(lam=0.3, slope=10.0)
    y = torch.linspace(-0.1, 0.1, 6)
    # units pushed apart by lam > 0: less spread wants a smaller lam, more spread a larger one
    layer(y).square().sum().backward()
    assert layer.lam.grad > 0
    layer.lam.grad = None
    (-layer(y).square().sum()).backward()
    assert layer.lam.grad == 0
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.05)
    for _ in range(200):
        optimizer.zero_grad()
        layer(y).square().sum().backward()
        optimizer.step()
    assert layer.effective_lam < 0.09


def test_a_learnt_slope_moves_and_stays_positive():
    layer = ibnn.ImplicitBias(lam=-0.2, slope=5.0, learn_slope=True)
    y = torch.linspace(-0.3, 0.3, 8)
    layer(y).square().sum().backward()
    # lam < 0 pulls together, a steeper sigma more so: the loss falls with slope
    assert layer.slope.grad < 0
    with torch.no_grad():
        layer.slope.fill_(-4.0)
    assert layer.effective_slope > 0
    assert layer(y).isfinite().all()


def test_training_is_ordinary_training():
    torch.manual_seed(3)
    x = torch.randn(64, 4)
    target = (x[:, :1] * x[:, 1:2] > 0).float()
    model = nn.Sequential(
        ibnn.Linear(4, 16, lam=0.02, learn_slope=True), nn.Tanh(), ibnn.Linear(16, 1)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(60):
        loss = nn.functional.binary_cross_entropy_with_logits(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    assert model[0].lam != 0.02
    assert model[0].slope != 10.0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_layers_solve_in_float32(dtype):
    torch.manual_seed(4)
    layer = ibnn.Conv2d(2, 3, 3, lam=-0.2, learn_lam=False).to(dtype)
    x = torch.randn(2, 2, 8, 8).to(dtype)
    y = nn.functional.conv2d(x, layer.weight, layer.bias)
    out = layer(x)
    assert out.dtype == dtype
    lam, slope = layer.lam.item(), layer.slope.item()
    expected = ibnn.implicit_bias(y.float(), lam, slope, coupling=ibnn.Uniform((-2, -1)))
    torch.testing.assert_close(out, expected.to(dtype))
    out.float().square().sum().backward()
    assert layer.weight.grad.dtype == dtype
    assert layer.weight.grad.isfinite().all()


def test_last_solve_tells_how_it_went():
    layer = ibnn.Linear(4, 30, lam=-0.5)
    assert layer.last_solve is None
    layer(torch.randn(8, 4))
    record = layer.last_solve
    assert record.converged == 1
    assert 0 <= record.residual < 1e-4
    assert record.steps > 0
    assert repr(record).startswith("LastSolve(converged=100.0%, residual=")
    broken = torch.randn(8, 4)
    broken[:2] = torch.nan
    with pytest.warns(ibnn.ConvergenceWarning, match="2 of 8 rows are not finite"):
        layer(broken)
    assert layer.last_solve.converged == pytest.approx(0.75)


def test_layers_read_well():
    assert repr(ibnn.Linear(4, 3, lam=-0.1)) == (
        "Linear(in_features=4, out_features=3, bias=True, lam=-0.1 (learnt), slope=10, "
        "coupling=Uniform(dims=-1), sigma=tanh)"
    )
    text = repr(
        ibnn.Conv2d(
            2, 3, 3, lam=[0.09, 0.02, -0.3], coupling="space", learn_slope=True, sigma="erf"
        )
    )
    assert text.startswith("Conv2d(2, 3, kernel_size=(3, 3), stride=(1, 1), lam=[-0.3 .. 0.09]")
    assert "slope=10 (learnt), coupling=space, sigma=erf" in text
    assert repr(ibnn.ImplicitBias(learn_lam=False)).startswith("ImplicitBias(lam=0, slope=10,")


def test_implicit_bias_follows_any_op():
    torch.manual_seed(5)
    model = nn.Sequential(
        nn.ConvTranspose2d(2, 3, 3),
        ibnn.ImplicitBias(lam=[-0.1, 0.0, 0.05], coupling=ibnn.Uniform((-2, -1))),
    )
    x = torch.randn(2, 2, 5, 5)
    expected = ibnn.implicit_bias(
        model[0](x), torch.tensor([-0.1, 0.0, 0.05]), coupling=ibnn.Uniform((-2, -1))
    )
    torch.testing.assert_close(model(x), expected)


@pytest.mark.parametrize(
    "options",
    [
        {"padding": "same"},
        {"stride": 2, "padding": 1, "groups": 2},
        {"dilation": 2, "bias": False, "padding": 2, "padding_mode": "circular"},
    ],
)
def test_the_parents_options_work(options):
    torch.manual_seed(6)
    ours, theirs = ibnn.Conv2d(2, 4, 3, **options), nn.Conv2d(2, 4, 3, **options)
    ours.load_state_dict(theirs.state_dict(), strict=False)
    x = torch.randn(2, 2, 8, 8)
    assert torch.equal(ours(x), theirs(x))


def test_how_a_layer_solves_can_be_changed_later():
    layer = ibnn.Linear(5, 40, lam=-1.0, solver="gradient", on_failure="ignore", learn_lam=False)
    x = torch.randn(3, 5)
    layer(x)
    assert layer.last_solve.converged == 1.0
    layer.max_steps = 1
    layer(x)
    assert layer.last_solve.converged < 1.0
    layer.on_failure = "raise"
    with pytest.raises(ibnn.ConvergenceError):
        layer(x)
    layer.solver, layer.max_steps = "newton", None
    layer(x)
    assert layer.last_solve.converged == 1.0
    with pytest.raises(ValueError, match="adjoint='backwards'"):
        layer.adjoint = "backwards"
    assert layer.adjoint == "implicit"  # what was refused is not kept
    layer(x)


def test_whether_lam_is_learnt_cannot_be_changed_later():
    with pytest.warns(ibnn.ThresholdWarning, match=r"lam=0.5 is used as 0.095"):
        layer = ibnn.Linear(5, 4, lam=0.5)
    with pytest.raises(AttributeError, match=r"learn_lam is .* layer\.lam\.requires_grad_\("):
        layer.learn_lam = False  # which would take the bounds away and leave the parameter
    with pytest.raises(AttributeError, match="learn_slope is chosen when the layer is made"):
        layer.learn_slope = True
    layer.lam.requires_grad_(False)
    assert float(layer.effective_lam) == pytest.approx(0.095)


@pytest.mark.parametrize("name", ["lam", "slope"])
def test_a_fixed_value_takes_a_tensor_in_its_place_and_no_parameter(name):
    layer = ibnn.Linear(5, 4, lam=-0.1, learn_lam=False)
    message = f"{name} of this layer is fixed: .* learn_{name}=True"
    with pytest.raises(AttributeError, match=message):
        setattr(layer, name, torch.nn.Parameter(torch.tensor(0.5)))
    assert name not in dict(layer.named_parameters())
    setattr(layer, name, torch.tensor(0.02))
    layer(torch.randn(3, 5))
    assert getattr(layer, f"effective_{name}") == torch.tensor(0.02)
    learnt = ibnn.Linear(5, 4, lam=-0.1, learn_slope=True)
    setattr(learnt, name, torch.nn.Parameter(torch.tensor(0.05)))
    assert learnt.get_parameter(name) == torch.tensor(0.05)


def test_the_old_path_of_the_layers_still_works_and_says_where_they_are():
    with pytest.warns(DeprecationWarning, match=r"ibnn\.nn"):
        from ibnn.modules import Conv2d
    assert Conv2d is ibnn.Conv2d


@pytest.mark.parametrize("std", [0.3, 3.0])
def test_one_lam_for_all_rows_is_the_same_as_one_for_each_channel(std):
    """Rows with one lam and slope take a shorter way through the library than rows with several."""
    torch.manual_seed(0)
    y = (std * torch.randn(4, 3, 5, 5, dtype=torch.float64)).requires_grad_()
    g = torch.randn_like(y)
    results = []
    for lam, slope in ((-0.2, 8.0), ([-0.2] * 3, [8.0] * 3)):
        layer = ibnn.ImplicitBias(lam, slope, coupling=ibnn.Uniform((-2, -1)), dtype=y.dtype)
        z = layer(y)
        of_y, of_lam = torch.autograd.grad(z, (y, layer.lam), g)
        solve = layer.last_solve
        assert solve is not None
        results.append((z, of_y, of_lam.sum(), torch.tensor([solve.residual, solve.steps])))
        assert solve.converged == solve.unique == 1
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-13)


def test_the_shorter_way_leaves_hard_rows_to_the_longer_one():
    """A row that is not finite, a slope that is not positive, a strength above the threshold."""
    layer = ibnn.ImplicitBias(-0.2, coupling=ibnn.Uniform(-1))
    y = torch.randn(3, 6)
    spoilt = y.clone()
    spoilt[1, 2] = torch.nan
    with pytest.warns(ibnn.ConvergenceWarning, match="1 of 3 rows are not finite"):
        z = layer(spoilt)
    assert z[1].isnan().all()
    torch.testing.assert_close(z[::2], layer(y)[::2], rtol=0, atol=0)
    with pytest.raises(ValueError, match="slope must be positive"):
        ibnn.implicit_bias(y, -0.2, torch.tensor(-1.0))
    above = ibnn.solve(y, 0.3, 10.0)
    assert above.converged.all()


def test_a_convolution_does_not_join_the_examples_of_a_batch():
    with pytest.raises(ValueError, match=r"dims=\(-4, -1\) reach beyond the 3 dims"):
        ibnn.Conv2d(1, 2, 3, coupling=ibnn.Uniform((-4, -1)))


def test_a_coupling_of_channels_needs_one_slope_as_it_needs_one_lam():
    layer = ibnn.Conv2d(1, 3, 3, slope=[10.0, 5.0, 3.0])
    with pytest.raises(ValueError, match="needs one slope; the layer has 3"):
        layer.coupling = "channels"
    assert layer(torch.zeros(1, 1, 4, 4)).shape == (1, 3, 2, 2)


def test_bounds_that_leave_nothing_are_refused():
    with pytest.raises(ValueError, match=r"bounded=\(0.2, 0.3\) lies above 0.095"):
        ibnn.Linear(4, 8, lam=0.25, bounded=(0.2, 0.3))
    with pytest.raises(ValueError, match=r"bounded must be True, False or .* got '01'"):
        ibnn.Linear(4, 8, bounded="01")
