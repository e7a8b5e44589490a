"""Who listens to whom: the weights of every coupling, read off its sums, against the oracle's."""

import numpy as np
import pytest
import torch

import ibnn
from tests import bank, library, oracle


class Linear(ibnn.Sigma):
    """sigma(x) = x makes a sum over neighbours linear, so that it shows its weights."""

    name = "linear"
    bound = float("inf")

    def value(self, x):
        return x * 1

    def primitive(self, x):
        return x**2 / 2


def laplacian(coupling, shape):
    """-B as a matrix: residual(e_k, 0) = e_k + lam B(e_k) with lam = 1, slope = 1."""
    units = int(np.prod(shape))
    basis = torch.eye(units, dtype=torch.float64).reshape(units, *shape)
    images = ibnn.residual(
        basis, torch.zeros_like(basis), 1.0, 1.0, coupling=coupling, sigma=Linear()
    )
    return (basis - images).reshape(units, units).T.numpy()


@pytest.mark.parametrize("plain", bank.couplings(), ids=str)
def test_the_weights_are_the_oracles(plain):
    weights = np.full((24, 24), 1 / 24) if plain.weights is None else plain.weights
    expected = np.diag(weights.sum(axis=1)) - weights
    found = laplacian(library.coupling(plain), plain.shape or (24,))
    np.testing.assert_allclose(found, expected, atol=1e-14)


@pytest.mark.parametrize("shape", [(7,), (1, 5), (5, 1), (2, 2), (4, 3), (1, 2, 3), (3, 1, 1)])
@pytest.mark.parametrize("size", [1, 3, 5, 9])
def test_windows_larger_than_the_map_lose_what_falls_outside(shape, size):
    kernel_size = (size,) * len(shape)
    weights = oracle.window_weights(shape, kernel_size)
    found = laplacian(ibnn.Window(kernel_size), shape)
    np.testing.assert_allclose(found, np.diag(weights.sum(axis=1)) - weights, atol=1e-14)


def test_a_given_std_is_as_exact_as_the_solve():
    offsets = torch.arange(-2, 3, dtype=torch.float64)
    exact = torch.softmax(-((offsets / 0.7) ** 2) / 2, 0)
    window = ibnn.Window(5, "gaussian", std=0.7)
    torch.testing.assert_close(window.weight(torch.float64), exact, rtol=0, atol=1e-16)
    torch.testing.assert_close(window.half().double().weight(), exact, rtol=0, atol=1e-16)
    assert window.config()["std"] == 0.7


def test_window_taps_are_normalised_and_a_wide_gaussian_is_a_box():
    for window in (ibnn.Window((3, 5)), ibnn.Window((3, 5), "gaussian", std=0.7)):
        assert float(window.weight(torch.float64).sum()) == pytest.approx(1, abs=1e-15)
    # exp(-o^2 / 2 std^2) differs from 1 by 2 / 1e8
    wide = ibnn.Window(5, "gaussian", std=1e4).weight(torch.float64)
    torch.testing.assert_close(wide, ibnn.Window(5).weight(torch.float64), rtol=1e-7, atol=0)


def test_a_window_is_exact_in_float64_without_being_told():
    # 1/3 of float32 is off by 1e-8
    assert float(ibnn.Window(3).weight(torch.float64)[0]) == 1 / 3


def test_a_window_of_one_number_takes_the_dims_of_its_layer():
    layer = ibnn.Conv2d(1, 2, 3, coupling=ibnn.Window(5, "gaussian", std=0.5))
    assert layer.coupling.kernel_size == (5, 5)
    assert layer.coupling.dims == (-2, -1)
    assert float(layer.coupling.std) == 0.5
    assert ibnn.Conv1d(1, 2, 3, coupling=ibnn.Window(5)).coupling.dims == (-1,)
    with pytest.raises(ValueError, match="Window has 2 dims, but the layer has 3"):
        ibnn.Conv3d(1, 2, 3, coupling=ibnn.Window((5, 5)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kernel_size": 4}, "odd ints .* got 4"),
        ({"kernel_size": 0}, "odd ints"),
        ({"kernel_size": (3, -1)}, "odd ints"),
        ({"kernel_size": 5.0}, "one to three odd ints .* got 5.0"),
        ({"kernel_size": (3.0, 3)}, r"odd ints .* got \(3.0, 3\)"),
        ({"kernel_size": "3"}, "odd ints .* got '3'"),
        ({"kernel_size": None}, "odd ints .* got None"),
        ({"kernel_size": (3, 3, 3, 3)}, "one to three"),
        ({"kernel_size": 3, "profile": "disc"}, "profile='disc'.*'box' or 'gaussian'"),
        ({"kernel_size": 3, "std": 1.0}, "a box has no std"),
        ({"kernel_size": 3, "learnable": True}, "a box has no std"),
        ({"kernel_size": 3, "profile": "gaussian", "std": 0.0}, "std must be positive, got 0.0"),
        ({"kernel_size": 3, "profile": "gaussian", "std": "a"}, "std must be positive, got 'a'"),
        ({"kernel_size": 3, "profile": "gaussian", "std": True}, "std must be positive, got True"),
        ({"kernel_size": 3, "profile": "gaussian", "std": torch.ones(2)}, "std must be positive"),
    ],
)
def test_a_window_that_makes_no_sense_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ibnn.Window(**arguments)


@pytest.mark.parametrize("given", ["no", 1, None])
def test_learnable_is_true_or_false(given):
    message = f"learnable must be True or False, got {given!r}"
    with pytest.raises(TypeError, match=message):
        ibnn.Dense(units=3, learnable=given)
    with pytest.raises(TypeError, match=message):
        ibnn.Window(3, "gaussian", learnable=given)


def test_a_std_may_be_that_of_another_window():
    learnt = ibnn.Window(3, "gaussian", 0.5, learnable=True)
    assert ibnn.Window(3, "gaussian", learnt.std.detach()).config()["std"] == 0.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_given_matrix_is_as_exact_as_the_solve(dtype, generator):
    matrix = torch.rand(4, 4, dtype=dtype, generator=generator)
    exact = (matrix + matrix.T) / 2
    y = torch.randn(2, 4, dtype=dtype, generator=generator)
    # a lam that half precision holds
    bias = ibnn.ImplicitBias(-0.25, coupling=ibnn.Dense(matrix))
    z = bias(y)
    for other in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        bias.to(other)
        assert torch.equal(bias.coupling.weight(dtype), exact)
        assert torch.equal(bias(y), z)
        assert torch.equal(bias.to(dtype)(y), z)
    assert bias.to("meta").coupling.weight().is_meta


def test_a_learnt_matrix_has_the_dtype_of_its_layer():
    bias = ibnn.ImplicitBias(-0.25, coupling=ibnn.Dense(units=3, learnable=True)).half()
    assert bias.coupling.raw.dtype == torch.float16


def test_a_stack_of_given_matrices_runs_as_one(generator):
    matrices = torch.rand(3, 4, 4, generator=generator)
    layers = [ibnn.ImplicitBias(-0.25, coupling=ibnn.Dense(one)) for one in matrices]
    parameters, buffers = torch.func.stack_module_state(layers)
    y = torch.randn(2, 4, generator=generator)

    def one(*state):
        return torch.func.functional_call(layers[0], state, (y,))

    found = torch.func.vmap(one)(parameters, buffers)
    torch.testing.assert_close(found, torch.stack([layer(y) for layer in layers]))


def test_dense_weights_are_symmetrised(generator):
    raw = torch.rand(4, 4, dtype=torch.float64, generator=generator)
    for learnable in (False, True):
        weight = ibnn.Dense(raw, learnable=learnable).weight()
        torch.testing.assert_close(weight, (raw + raw.T) / 2)
    z = torch.randn(3, 4, dtype=torch.float64, generator=generator)
    torch.testing.assert_close(
        ibnn.implicit_bias(z, -0.3, coupling=ibnn.Dense(raw)),
        ibnn.implicit_bias(z, -0.3, coupling=ibnn.Dense(raw.T)),
    )


def test_dense_without_weights_is_uniform(generator):
    y = torch.randn(3, 8, generator=generator)  # 1/8 is exact
    torch.testing.assert_close(
        ibnn.implicit_bias(y, -0.3, coupling=ibnn.Dense(units=8)), ibnn.implicit_bias(y, -0.3)
    )


def test_a_learnt_dense_weight_stays_non_negative():
    coupling = ibnn.Dense(units=3, learnable=True)
    with torch.no_grad():
        coupling.raw[0, 1] = coupling.raw[1, 0] = -0.5
    assert (coupling.weight() >= 0).all()
    assert coupling.weight()[0, 1] == 0.5


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, ValueError, "needs a weight or units"),
        ({"units": 0}, ValueError, "units=0"),
        ({"weight": torch.ones(2, 3)}, ValueError, r"D x D matrix, got shape \(2, 3\)"),
        ({"weight": torch.ones(2, 2), "units": 3}, ValueError, "2 units, but units=3"),
        ({"weight": torch.ones(2, 2, dtype=torch.int64)}, TypeError, "int64"),
        ({"weight": -torch.ones(2, 2)}, ValueError, "non-negative"),
        ({"weight": torch.full((2, 2), torch.nan)}, ValueError, "finite"),
    ],
)
def test_a_dense_weight_that_makes_no_sense_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        ibnn.Dense(**arguments)


@pytest.mark.parametrize("dims", [(), (-1, -1), 0.5, "last", True])
def test_dims_that_make_no_sense_are_refused(dims):
    with pytest.raises((ValueError, TypeError), match="dims"):
        ibnn.Uniform(dims)


def test_couplings_are_readable():
    assert repr(ibnn.Uniform(-1)) == "Uniform(dims=-1)"
    assert repr(ibnn.Uniform((-2, -1))) == "Uniform(dims=(-2, -1))"
    assert repr(ibnn.Window(3)) == "Window(3, box)"
    window = ibnn.Window((3, 5), "gaussian", 0.5, learnable=True)
    assert repr(window) == "Window((3, 5), gaussian, std=0.5, learnable=True)"
    assert repr(ibnn.Dense(units=4)) == "Dense(units=4)"


def test_sums_over_many_rows_or_long_rows_are_blocked_and_agree(generator):
    # 3000^2 pairs are more than one block of 2^22
    y = torch.randn(2, 3000, dtype=torch.float64, generator=generator)
    weight = torch.rand(3000, 3000, dtype=torch.float64, generator=generator) / 3000
    weight = (weight + weight.T) / 2
    found = ibnn.residual(y, y, 1.0, 1.0, coupling=ibnn.Dense(weight))
    for row, b in zip(y.numpy(), found.numpy(), strict=True):
        expected = oracle.bias_row(row, 1.0, weight.numpy())
        np.testing.assert_allclose(b, expected, atol=1e-13)
