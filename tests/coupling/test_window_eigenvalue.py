"""The bound on the largest eigenvalue of a window's Laplacian, against the eigenvalue itself."""

import itertools

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import ibnn
from tests import oracle

# windows of one to three dims, on rings long enough that one of their frequencies is near the
# minimum of the transform (20 k: it then misses at most (k^2 / 12) (pi / 20 k)^2 / 2 = 0.1 %)
WINDOWS = [
    ((3,), (60,)),
    ((9,), (180,)),
    ((31,), (620,)),
    ((33,), (660,)),
    ((3, 5), (6, 100)),
    ((5, 1), (100, 4)),
    ((1, 3, 5), (2, 4, 100)),
]
PROFILES = [("box", None), ("gaussian", 1.5), ("gaussian", 0.5), ("gaussian", 1e3)]


def largest(weights):
    return np.linalg.eigvalsh(np.diag(weights.sum(1)) - weights)[-1]


def ring_weights(rings, window):
    """The weights on a map whose borders are joined."""
    taps = window.weight(torch.float64).numpy()
    cells = list(itertools.product(*map(range, rings)))
    index = {cell: i for i, cell in enumerate(cells)}
    weights = np.zeros((len(cells), len(cells)))
    for cell, tap in itertools.product(cells, np.ndindex(*taps.shape)):
        moved = zip(cell, tap, taps.shape, rings, strict=True)
        neighbor = tuple((c + t - k // 2) % n for c, t, k, n in moved)
        weights[index[cell], index[neighbor]] += taps[tap]
    return weights


def by_sums(window, dtype=torch.float64):
    return window.sums.largest_eigenvalue(window.weight(dtype), (300,) * len(window.dims))


@pytest.mark.parametrize(("profile", "std"), PROFILES)
@pytest.mark.parametrize(("size", "rings"), WINDOWS)
def test_it_is_a_bound_and_within_a_per_cent(size, rings, profile, std):
    window = ibnn.Window(size, profile, std)
    exact = largest(ring_weights(rings, window))
    for found in (window.largest_eigenvalue(), by_sums(window)):
        assert exact <= found <= exact * 1.01
    with_borders = oracle.window_weights(rings, size, profile, std)
    assert largest(with_borders) <= window.largest_eigenvalue()


@pytest.mark.parametrize("std", [0.01, 0.2, 0.5, 2.0, 30.0])
@pytest.mark.parametrize("size", [3, 31, 33, 129])
def test_a_learnt_one_is_a_bound_in_float32_too(size, std):
    window = ibnn.Window(size, "gaussian", std, learnable=True)
    offsets = np.arange(size) - size // 2
    taps = np.exp(-((offsets / window.std.item()) ** 2) / 2)
    angles = np.linspace(0, np.pi, 40 * size + 1)
    exact = 1 - (np.cos(angles[:, None] * offsets) @ (taps / taps.sum())).min()
    # the roundings of float32 that are allowed for: log2(64 * 129) < 14 of 1.2e-7, twice
    assert exact <= window.largest_eigenvalue().item() <= exact * 1.01 + 28 * 1.2e-7


@pytest.mark.parametrize("size", [(129,), (1, 129), (1, 1, 129), (1, 601), (31, 33), (301, 1)])
def test_the_coupling_and_its_sums_agree_on_long_windows(size):
    for window in (ibnn.Window(size), ibnn.Window(size, "gaussian")):
        assert by_sums(window) == pytest.approx(window.largest_eigenvalue(), rel=1e-12)
        # taps of float32 do not sum to 1 exactly
        assert by_sums(window, torch.float32) == pytest.approx(by_sums(window), rel=1e-6)


def test_taps_of_ones_own_need_not_be_a_product_over_axes():
    """A plus: its transform (1 + 2 cos a + 2 cos b) / 5 is lowest, -3/5, at a = b = pi."""
    plus = torch.tensor([[0.0, 1, 0], [1, 1, 1], [0, 1, 0]], dtype=torch.float64) / 5
    assert ibnn.Window.sums.largest_eigenvalue(plus, (40, 40)) >= 1.6
    assert ibnn.Window.sums.largest_eigenvalue(0 * plus, (40, 40)) == 0


class Largest(TorchDispatchMode):
    """Remembers how many numbers the largest tensor has that an op makes."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor):
            self.numbers = max(self.numbers, made.numel())
        return made


def test_a_long_window_needs_memory_in_proportion_to_its_length():
    size = 1001
    with Largest() as seen:
        window = ibnn.Window(size, "gaussian", learnable=True)
        window.largest_eigenvalue().backward()
        ibnn.Window(size).largest_eigenvalue()
    assert window.std.grad.isfinite()
    # 64 samples for each tap; the gradient of a real transform is a complex one of as many
    assert seen.numbers <= 2 * 64 * size


class Eigenvalue(torch.nn.Module):
    def __init__(self, window):
        super().__init__()
        self.window = window

    def forward(self):
        return self.window.largest_eigenvalue()


# torch's own forward mode still uses TorchScript
@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")
@pytest.mark.parametrize("size", [7, (3, 7), 65])
def test_a_learnt_std_has_derivatives(size):
    module = Eigenvalue(ibnn.Window(size, "gaussian", learnable=True))

    def eigenvalue(std):
        return torch.func.functional_call(module, {"window.std": std}, ())

    std = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    torch.autograd.gradcheck(eigenvalue, std)
    torch.autograd.gradgradcheck(eigenvalue, std)
    stds = torch.tensor([0.7, 2.0, 9.0], dtype=torch.float64)
    found = torch.func.vmap(eigenvalue)(stds)
    torch.testing.assert_close(found, torch.stack([eigenvalue(one) for one in stds]))
    slope = torch.func.jvp(eigenvalue, (stds[0],), (torch.ones_like(stds[0]),))[1]
    torch.testing.assert_close(slope, torch.func.grad(eigenvalue)(stds[0]))


@pytest.mark.parametrize("size", [7, 65])
def test_it_is_not_rounded_by_autocast_and_exists_in_half_precision(size):
    window = ibnn.Window(size, "gaussian", 2.0, learnable=True)
    exact = window.largest_eigenvalue().item()
    with torch.autocast("cpu", torch.bfloat16):
        assert window.largest_eigenvalue().item() == exact
    half = window.half().largest_eigenvalue()
    assert half.dtype == torch.float16
    assert half.item() == pytest.approx(exact, rel=2**-11)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own compiler
def test_a_learnt_long_window_compiles_without_a_graph_break():
    torch.compiler.reset()
    layer = ibnn.Conv2d(1, 2, 3, lam=0.05, coupling=ibnn.Window(65, "gaussian", learnable=True))
    x = torch.randn(2, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), layer(x))
    torch.compiler.reset()
