"""timm models, built without downloads (`make test-ecosystem`)."""

from pathlib import Path
from typing import Any

import pytest
import torch

import ibnn

# timm and what it imports warn of their own affairs
pytestmark = pytest.mark.filterwarnings("ignore")

SMALL_SWIN = {"img_size": 56, "depths": (1, 1, 1, 1), "embed_dim": 24, "num_heads": (1, 2, 3, 6)}
# name, options, layers that are converted, side of the images
MODELS: list[tuple[str, dict[str, Any], int, int]] = [
    ("resnet18", {"zero_init_last": False}, 20, 64),
    ("convnext_atto", {}, 40, 64),
    ("mobilenetv3_small_050", {}, 53, 64),
    ("efficientnet_b0", {}, 81, 64),
    ("swin_tiny_patch4_window7_224", SMALL_SWIN, 20, 56),
    ("vit_tiny_patch16_224", {"img_size": 64, "depth": 2}, 9, 64),
]


@pytest.fixture(params=MODELS, ids=[name for name, *_ in MODELS])
def case(request: pytest.FixtureRequest, timm: Any) -> tuple[Any, int, torch.Tensor]:
    name, options, layers, side = request.param

    def make(seed: int) -> Any:
        torch.manual_seed(seed)
        return timm.create_model(name, pretrained=False, num_classes=7, **options).eval()

    images = torch.rand(2, 3, side, side, generator=torch.Generator().manual_seed(3))
    return make, layers, images


def test_every_layer_is_converted_or_told_with_the_reason(case: Any) -> None:
    make, layers, _ = case
    model = make(0)
    report = ibnn.conversion_report(model)
    assert len(report.converted) == layers
    told = {*report.converted, *report.skipped, *report.unreached, *report.others}
    holders = {name for name, m in model.named_modules() if any(True for _ in m.parameters(False))}
    assert holders <= told
    head = [*report.skipped, *report.unreached]
    assert len(head) == 1
    assert any(word in head[0] for word in ("fc", "head", "classifier"))


@torch.no_grad()
def test_lam_zero_and_the_way_back_are_bitwise_the_same(case: Any) -> None:
    make, _, images = case
    model = make(0)
    expected = model(images)
    assert torch.equal(ibnn.convert(model, lam=0.0)(images), expected)
    assert torch.equal(ibnn.standard(ibnn.convert(model, lam=-0.1))(images), expected)


def test_it_takes_a_training_step_and_comes_back_from_its_folder(case: Any, tmp_path: Path) -> None:
    make, _, images = case
    model = ibnn.convert(make(0), lam=-0.05, learn_lam=True)
    optimizer = torch.optim.AdamW(ibnn.parameter_groups(model, 1e-3, weight_decay=0.01))
    lams = [p for name, p in model.named_parameters() if name.endswith(".lam")]
    before = [p.item() for p in lams]
    model.train()(images).square().mean().backward()
    optimizer.step()
    moved = sum(p.item() != value for p, value in zip(lams, before, strict=True))
    # a layer whose map is a single pixel has nobody to listen to: its lam has no gradient
    assert moved > len(lams) / 2
    ibnn.save(model.eval(), tmp_path)
    again: Any = ibnn.load(tmp_path, make(1)).eval()
    with torch.no_grad():
        assert torch.equal(again(images), model(images))
