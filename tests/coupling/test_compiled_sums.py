"""The compiled sums over neighbourhoods and matrices against the same sums in torch."""

import pytest
import torch

from ibnn import sigma
from ibnn.coupling.sums import MATRIX
from ibnn.coupling.window_sums import WINDOW
from ibnn.engine.native import calls as native
from ibnn.engine.native import loader

pytestmark = pytest.mark.skipif(not loader.available(), reason="no C++ compiler")

# the units of a row and its window, also larger than the map or flat in one dim
MAPS = [
    ((7,), (3,)),
    ((1,), (5,)),
    ((4, 9), (5, 3)),
    ((3, 2), (7, 1)),
    ((3, 4, 5), (3, 5, 3)),
    ((2, 1, 6), (1, 3, 9)),
]


# of one value: s_n is at most 5 (the third derivative of arctan), so this is two roundings of it
ERROR = {torch.float32: 1e-6, torch.float64: 2e-15}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["tanh", "hardtanh", "arctan", "erf"])
@pytest.mark.parametrize(("units", "window"), MAPS)
def test_a_window_hears_the_same_in_both(units, window, name, dtype, generator):
    size = torch.Size(units).numel()
    z = torch.randn(5, size, generator=generator, dtype=dtype) * 2
    a = torch.randn(5, size, generator=generator, dtype=dtype)
    # not symmetric: cotangents of weights are not
    taps = torch.rand(window, generator=generator, dtype=dtype)
    for order in range(4):
        for factors in (None, a):
            compiled = native.window_sum(z, factors, taps, order, name, units)
            in_torch = WINDOW.pair_sum(z, factors, taps, order, sigma.resolve(name), units)
            allowed = ERROR[dtype] * float(taps.sum() * a.abs().max().clamp(min=1))
            torch.testing.assert_close(compiled, in_torch, rtol=0, atol=allowed)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["tanh", "hardtanh", "arctan", "erf"])
@pytest.mark.parametrize("units", [1, 2, 37])
def test_a_matrix_hears_the_same_in_both(units, name, dtype, generator):
    z = torch.randn(4, units, generator=generator, dtype=dtype) * 2
    a = torch.randn(4, units, generator=generator, dtype=dtype)
    weight = torch.rand(units, units, generator=generator, dtype=dtype)
    for order in range(4):
        for factors in (None, a):
            compiled = native.matrix_sum(z, factors, weight, order, name)
            in_torch = MATRIX.pair_sum(z, factors, weight, order, sigma.resolve(name), (units,))
            allowed = ERROR[dtype] * float(weight.sum(1).max() * a.abs().max().clamp(min=1))
            torch.testing.assert_close(compiled, in_torch, rtol=0, atol=allowed)


def test_nothing_beside_the_result_is_written(generator, monkeypatch):
    """The result lies in the middle of a larger piece of memory."""
    for units, window in MAPS:
        size = torch.Size(units).numel()
        around = torch.full((9, size), 7.0)
        monkeypatch.setattr(native.torch, "empty_like", lambda *_, inner=around[3:6], **__: inner)
        z = torch.randn(3, size, generator=generator)
        native.window_sum(z, z, torch.rand(window, generator=generator), 1, "tanh", units)
        native.matrix_sum(z, z, torch.rand(size, size, generator=generator), 1, "tanh")
        assert (around[:3] == 7).all()
        assert (around[6:] == 7).all()
        assert not (around[3:6] == 7).any()
        monkeypatch.undo()
