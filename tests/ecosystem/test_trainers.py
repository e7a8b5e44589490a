"""Training by other people's loops, where they are installed."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import ibnn

pytestmark = pytest.mark.filterwarnings("ignore")


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(ibnn.Linear(4, 8, lam=0.02), nn.ReLU(), nn.Linear(8, 2))


def points() -> tuple[Tensor, Tensor]:
    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(1))
    return x, (x.sum(1) > 0).long()


def lam(model: nn.Module) -> float:
    return next(p.item() for name, p in model.named_parameters() if name.endswith("lam"))


def test_lightning(tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning", reason="not installed")

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = network()

        def training_step(self, batch: Any, _: int) -> Tensor:
            return functional.cross_entropy(self.model(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(ibnn.parameter_groups(self.model, 1e-2))

    module = Module()
    loader = torch.utils.data.DataLoader(list(zip(*points(), strict=True)), batch_size=16)
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", default_root_dir=tmp_path, logger=False
    )
    trainer.fit(module, loader)
    assert lam(module.model) != pytest.approx(0.02, abs=1e-6)


def test_hugging_face_trainer(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="not installed")
    pytest.importorskip("accelerate", reason="not installed")
    config = transformers.BertConfig(
        vocab_size=8,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
    )
    torch.manual_seed(0)
    model = ibnn.convert(
        transformers.BertForSequenceClassification(config), lam=0.02, learn_lam=True
    )
    rows = [{"input_ids": torch.arange(6) % 8, "labels": torch.tensor(i % 2)} for i in range(8)]
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), max_steps=2, report_to=[], use_cpu=True, save_strategy="no"
    )
    trainer: Any = transformers.Trainer(model=model, args=arguments, train_dataset=rows)
    trainer.train()
    assert lam(model) != pytest.approx(0.02, abs=1e-9)


def test_skorch() -> None:
    skorch = pytest.importorskip("skorch", reason="not installed")
    x, y = points()
    made = skorch.NeuralNetClassifier(
        network(), criterion=nn.CrossEntropyLoss, max_epochs=2, lr=0.1, verbose=0, train_split=None
    )
    made.fit(x.numpy(), y.numpy())
    assert lam(made.module_) != pytest.approx(0.02, abs=1e-9)
