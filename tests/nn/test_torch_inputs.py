"""Torch's own database of module inputs: what the parent takes, our layers take."""

import pytest
import torch
from torch import nn

import ibnn

pytest.importorskip("expecttest", reason="torch's test tools need it")

with pytest.MonkeyPatch.context() as patch:
    # torch's tools look for the test they belong to on the command line
    patch.setattr("sys.argv", ["pytest"])
    from torch.testing._internal.common_modules import module_db

LAYERS = {
    nn.Linear: (ibnn.Linear, ibnn.Uniform(-1)),
    nn.Conv1d: (ibnn.Conv1d, ibnn.Uniform(-1)),
    nn.Conv2d: (ibnn.Conv2d, ibnn.Uniform((-2, -1))),
    nn.Conv3d: (ibnn.Conv3d, ibnn.Uniform((-3, -2, -1))),
}


def inputs(parent):
    (info,) = (info for info in module_db if info.module_cls is parent)
    settings = {"device": "cpu", "dtype": torch.float64, "requires_grad": True, "training": True}
    return info.module_inputs_func(info, **settings)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("lam", [0.0, -0.2])
@pytest.mark.parametrize("parent", LAYERS, ids=lambda parent: parent.__name__)
def test_every_input_that_torch_tests_its_own_layer_with(parent, lam):
    layer, coupling = LAYERS[parent]
    found = inputs(parent)
    assert len(found) >= 3
    for case in found:
        made, given = case.constructor_input, case.forward_input
        torch.manual_seed(0)
        theirs = parent(*made.args, **made.kwargs).double()
        ours = layer(*made.args, **made.kwargs, lam=lam).double()
        ours.load_state_dict(theirs.state_dict(), strict=False)
        expected = theirs(*given.args, **given.kwargs)
        z = ours(*given.args, **given.kwargs)
        if lam == 0:
            torch.testing.assert_close(z, expected, rtol=0, atol=0)
        else:
            # lam was rounded to float32 in the constructor
            exact = ibnn.implicit_bias(expected, ours.lam.detach(), coupling=coupling)
            torch.testing.assert_close(z, exact, rtol=0, atol=1e-10)
        z.sum().backward()
        assert ours.weight.grad is not None
