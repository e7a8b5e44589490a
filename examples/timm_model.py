"""Convert a timm model without training it, and recalibrate its batch norms.

    python examples/timm_model.py

The implicit bias changes what each layer puts out, so that the means and variances in the batch
norms no longer fit; a few batches without labels mend that. Needs timm: pip install timm. The model
has random weights here, to need no download; `pretrained=True` gets trained ones.
"""

import argparse

import torch
from torch import Tensor, nn

import ibnn


@torch.no_grad()
def settle(model: nn.Module, batches: list[Tensor]) -> None:
    """Batch norms get the statistics of these images, as a training would have left them."""
    for norm in (module for module in model.modules() if isinstance(module, nn.BatchNorm2d)):
        norm.reset_running_stats()
        norm.momentum = None  # a plain mean over the batches
    model.train()
    for images in batches:
        model(images)


@torch.no_grad()
def spread(model: nn.Module, images: Tensor) -> float:
    """The standard deviation of what the last batch norm puts out: 1 where its statistics fit."""
    norm = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)][-1]
    seen: list[Tensor] = []
    hook = norm.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    model.eval()(images)
    hook.remove()
    scale = (norm.running_var + norm.eps).sqrt()  # type: ignore[operator]
    return float((seen[0].std((0, 2, 3)) / scale).mean())


def main(name: str = "resnet10t", lam: float = -0.1, side: int = 64) -> None:
    try:
        import timm  # type: ignore[import-not-found]
    except ImportError as error:
        print(f"this example needs timm ({error}): pip install timm")
        return
    torch.manual_seed(0)
    batches = [torch.rand(8, 3, side, side) for _ in range(4)]
    model = timm.create_model(name, pretrained=False, num_classes=10)
    settle(model, batches)
    converted = ibnn.convert(model, lam=lam)
    print(converted.conversion)

    mended = ibnn.convert(model, lam=lam, recalibrate=batches)
    for what, net in (("trained", model), ("converted", converted), ("recalibrated", mended)):
        print(f"{what}: spread after the last batch norm {spread(net, batches[0]):.3f}")
    twin = ibnn.standard(converted)
    same = torch.equal(twin.eval()(batches[0]), model.eval()(batches[0]))
    print("back to standard neurons, the same to the last bit:", same)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Convert a timm model and recalibrate it.")
    parser.add_argument("--name", default="resnet10t", help="a model of timm.list_models()")
    parser.add_argument("--lam", type=float, default=-0.1, help="strength of the implicit bias")
    given = parser.parse_args()
    main(given.name, given.lam)
