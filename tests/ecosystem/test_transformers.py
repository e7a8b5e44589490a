"""Hugging Face models, built from configurations without downloads (`make test-ecosystem`)."""

from pathlib import Path
from typing import Any

import pytest
import torch

import ibnn

# transformers and what it imports warn of their own affairs
pytestmark = pytest.mark.filterwarnings("ignore")

IDS = torch.arange(12).reshape(2, 6)
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}


def gpt2(transformers: Any) -> Any:
    config = transformers.GPT2Config(
        n_embd=32,
        n_layer=2,
        n_head=2,
        vocab_size=50,
        n_positions=32,
        bos_token_id=0,
        eos_token_id=0,
    )
    return transformers.GPT2LMHeadModel(config)


def bert(transformers: Any) -> Any:
    config = transformers.BertConfig(**SMALL, intermediate_size=64, vocab_size=50)
    return transformers.BertForSequenceClassification(config)


def llama(transformers: Any) -> Any:
    config = transformers.LlamaConfig(**SMALL, intermediate_size=64, vocab_size=50)
    return transformers.LlamaForCausalLM(config)


@pytest.fixture(params=[(gpt2, 8), (bert, 13), (llama, 14)], ids=["gpt2", "bert", "llama"])
def case(request: pytest.FixtureRequest) -> tuple[Any, int]:
    transformers = pytest.importorskip("transformers", reason="make test-ecosystem installs it")
    make, layers = request.param

    def model(seed: int) -> Any:
        torch.manual_seed(seed)
        return make(transformers).eval()

    return model, layers


def test_every_linear_layer_is_converted_and_the_rest_is_told(case: tuple[Any, int]) -> None:
    make, layers = case
    model = make(0)
    report = ibnn.conversion_report(model)
    assert len(report.converted) == layers
    assert list(report.skipped.values()) == ["classification head"]
    told = {*report.converted, *report.skipped, *report.unreached, *report.others}
    holders = {name for name, m in model.named_modules() if any(True for _ in m.parameters(False))}
    assert holders <= told


@torch.no_grad()
def test_lam_zero_and_the_way_back_are_bitwise_the_same(case: tuple[Any, int]) -> None:
    model = case[0](0)
    expected = model(IDS).logits
    assert torch.equal(ibnn.convert(model, lam=0.0)(IDS).logits, expected)
    converted = ibnn.convert(model, lam=-0.2)
    assert not torch.allclose(converted(IDS).logits, expected, atol=1e-3)
    assert torch.equal(ibnn.standard(converted)(IDS).logits, expected)


def test_a_trained_model_is_saved_and_loaded_also_by_save_pretrained(
    case: tuple[Any, int], tmp_path: Path
) -> None:
    make, _ = case
    model = ibnn.convert(make(0), lam=-0.2, learn_lam=True)
    optimizer = torch.optim.AdamW(ibnn.parameter_groups(model, 1e-2, weight_decay=0.01))
    model(IDS).logits.square().mean().backward()
    lams = [p for n, p in model.named_parameters() if n.endswith(".lam")]
    before = [p.item() for p in lams]
    optimizer.step()
    assert all(p.item() != value for p, value in zip(lams, before, strict=True))
    ibnn.save(model, tmp_path / "ours")
    model.save_pretrained(tmp_path / "theirs")
    for folder in ("ours", "theirs"):
        again: Any = ibnn.load(tmp_path / folder, make(1))
        assert torch.equal(again(IDS).logits, model(IDS).logits)
