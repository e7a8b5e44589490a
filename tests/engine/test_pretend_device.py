"""Whole layers on a CUDA device that is not there: nothing is left on the host, and what it costs.

`Uniform` in float32 is served by Triton there; these are the paths of plain torch ops: other
couplings, learnt slopes and extents, and every device that Triton does not know.
"""

import copy

import pytest
import torch

import ibnn
from tests.pretend_device import CUDA, counted, on_host, pretended

SHORT, IMAGES = (4, 8), (2, 1, 12, 12)
LAYERS = {
    "uniform": lambda: (ibnn.Linear(8, 100, lam=-0.2), SHORT),
    "short rows": lambda: (ibnn.Linear(8, 20, lam=0.05), SHORT),
    "learnt slope": lambda: (ibnn.Linear(8, 100, lam=-0.2, learn_slope=True), SHORT),
    "lam of channels": lambda: (
        ibnn.Conv2d(1, 2, 3, padding="same", lam=torch.tensor([-0.1, 0.05])),
        IMAGES,
    ),
    "window": lambda: (
        ibnn.Conv2d(1, 2, 3, padding="same", lam=-0.1, coupling=ibnn.Window(5)),
        IMAGES,
    ),
    "learnt window": lambda: (
        ibnn.Conv2d(
            1, 2, 3, padding="same", lam=-0.1,
            coupling=ibnn.Window(5, profile="gaussian", std=1.0, learnable=True),
        ),
        IMAGES,
    ),
    "learnt dense": lambda: (
        ibnn.Linear(8, 20, lam=-0.1, coupling=ibnn.Dense(units=20, learnable=True)),
        SHORT,
    ),
    "arctan": lambda: (ibnn.Linear(8, 100, lam=-0.2, sigma="arctan"), SHORT),
}  # fmt: skip


@pytest.fixture(autouse=True)
def plain_ops(monkeypatch):
    monkeypatch.setenv("IBNN_ENGINE", "portable")


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_finds_on_the_device_what_it_finds_on_the_host(name):
    torch.manual_seed(0)
    layer, shape = LAYERS[name]()
    x = torch.randn(shape)
    here = layer(x)
    here.square().sum().backward()
    with pretended():
        there = copy.deepcopy(layer).to(CUDA)
        on_it = x.to(CUDA)
        there(on_it).sum().backward()  # tables are made once
        there.zero_grad()
        with counted() as counts:
            z = there(on_it)
            z.square().sum().backward()
        assert z.device == CUDA
        assert counts.uploads == 0
        assert {p.grad.device for p in there.parameters()} == {CUDA}
        gradients = {n: on_host(p.grad) for n, p in there.named_parameters()}
        values = on_host(z)
        assert there.last_solve.converged == 1
    # both are within 1e-5, and gradients within 1e-4 of their size
    assert (values - here).abs().max() <= 2e-5
    for n, p in layer.named_parameters():
        assert (gradients[n] - p.grad).abs().max() <= 2e-4 * p.grad.abs().max(), n


def test_a_tensor_left_on_the_host_is_an_error():
    """What the test above would not see, were its device blind."""
    with pretended():
        z = torch.randn(3, 4, device=CUDA)
        with pytest.raises(RuntimeError, match="same device"):
            z.add(torch.ones(4))
        with pytest.raises(TypeError, match="numpy"):
            z.numpy()
        with pytest.raises(RuntimeError, match="generator"):
            torch.randn(3, device=CUDA, generator=torch.Generator())
        with counted() as counts:
            bool((z + 1 > 0).all())
    assert (counts.launches, counts.looks) == (3, 1)


# what docs/performance.md says: launches and looks, forward and backward
BUDGETS = {
    "rows of 40": ((64, 40), ibnn.Uniform(-1), (850, 55), (450, 25)),
    "window": ((8, 3, 16, 16), ibnn.Window(5), (3800, 160), (1400, 40)),
    "dense": ((64, 64), ibnn.Dense(units=64), (1900, 100), (400, 15)),
}


@pytest.mark.parametrize(("lam", "std"), [(-0.2, 0.1), (-0.2, 1.0), (0.08, 0.1), (0.08, 1.0)])
@pytest.mark.parametrize("name", BUDGETS)
def test_launches_of_what_has_no_kernel_of_its_own(name, lam, std, generator):
    shape, coupling, forward, backward = BUDGETS[name]
    with pretended():
        y = (std * torch.randn(shape, generator=generator)).to(CUDA).requires_grad_()
        strength = torch.tensor(lam).to(CUDA).requires_grad_()
        g = torch.randn(shape, generator=generator).to(CUDA)
        with counted() as there:
            z = ibnn.implicit_bias(y, strength, coupling=coupling)
        with counted() as back:
            torch.autograd.grad(z, (y, strength), g)
    print(name, lam, std, (there.launches, there.looks), (back.launches, back.looks))
    assert there.launches <= forward[0]
    assert there.looks <= forward[1]
    assert back.launches <= backward[0]
    assert back.looks <= backward[1]
