"""The ops as torch sees them: quick to load, and loaded again without harm."""

import dataclasses
import subprocess
import sys

import pytest
import torch

import ibnn
from ibnn._core import ops
from ibnn.functional import solve_options


def run(script: str) -> str:
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.strip()


def test_a_forward_and_backward_pass_does_not_import_the_compiler():
    found = run(
        "import sys, torch, ibnn\n"
        "y = torch.linspace(-1, 1, 64, requires_grad=True)\n"
        "ibnn.implicit_bias(y, -0.1).sum().backward()\n"
        "print('torch._dynamo' in sys.modules)"
    )
    assert found == "False"


def test_a_module_can_be_loaded_again():
    found = run(
        "import importlib, torch, ibnn, ibnn._core.ops, ibnn._core.adjoint\n"
        "y = torch.linspace(-1, 1, 64)\n"
        "before = ibnn.implicit_bias(y, -0.1)\n"
        "importlib.reload(ibnn._core.ops)\n"
        "importlib.reload(ibnn._core.adjoint)\n"
        "print(torch.equal(ibnn.implicit_bias(y, -0.1), before))"
    )
    assert found == "True"


def test_the_ops_keep_what_torch_asks_of_ops():
    z = torch.linspace(-1, 1, 12).reshape(2, 6)
    how = solve_options(ibnn.Uniform(-1)).text
    for order in (0, 1):
        torch.library.opcheck(ops.pair_sum.op, (z, None, None, order, [6], how))
    strength = torch.full((2,), -0.5)
    torch.library.opcheck(ops.solve_adjoint.op, (z, z, strength, None, [6], how))
    lam, slope = torch.full((2,), -0.1), torch.full((2,), 10.0)
    torch.library.opcheck(ops.solve.op, (z, lam, slope, None, None, [6], how))


@pytest.mark.parametrize("name", ibnn.solver.names())
def test_a_solver_with_its_defaults_is_known_by_name_in_any_process(name):
    registered = ibnn.solver.resolve(name)
    text, expected = (
        solve_options(ibnn.Uniform(-1), solver=solver).text
        for solver in (dataclasses.replace(registered), name)
    )
    assert text == expected


def test_products_are_made_after_their_transform_has_ended():
    """J v by two reverse passes: what torch.func hands over then is a wrapper without storage."""
    torch.manual_seed(0)
    layer = ibnn.Linear(4, 6, lam=-0.1).double()
    x, v = torch.randn(2, 3, 4, dtype=torch.float64)
    with torch.no_grad():
        outputs, back = torch.func.vjp(layer, x)[:2]
        again = torch.func.vjp(lambda u: back(u)[0], torch.zeros_like(outputs))[1]
        (product,) = again(v)
    step = 1e-6  # central differences: 1e-12 of third order, 1e-10 of rounding over the step
    difference = (layer(x + step * v) - layer(x - step * v)) / (2 * step)
    torch.testing.assert_close(product, difference, rtol=0, atol=1e-7)
