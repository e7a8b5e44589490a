"""Fine-tune a Hugging Face model with the implicit bias, save it, get it back.

    python examples/hugging_face.py

A small BERT learns whether a sequence holds more tokens 1 than tokens 2. Needs transformers:
pip install transformers. The model is built from a configuration with random weights, to need no
download; `BertForSequenceClassification.from_pretrained(...)` gets trained ones.
"""

import argparse
import tempfile

import torch
from torch import Tensor

import ibnn


def sequences(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    ids = torch.randint(1, 6, (count, 11), generator=generator)
    return ids, ((ids == 1).sum(1) > (ids == 2).sum(1)).long()


def main(steps: int = 60) -> None:
    try:
        from transformers import (  # type: ignore[import-not-found]
            BertConfig,
            BertForSequenceClassification,
        )
    except ImportError as error:
        print(f"this example needs transformers ({error}): pip install transformers")
        return
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=8,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        hidden_dropout_prob=0.0,
    )
    # only the hidden layers of the feed-forward blocks
    model = ibnn.convert(
        BertForSequenceClassification(config),
        lam=0.0,
        learn_lam=True,
        only=["*.intermediate.dense"],
    )
    print(model.conversion)
    optimizer = torch.optim.AdamW(ibnn.parameter_groups(model, lr=3e-3, weight_decay=0.01))
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        ids, labels = sequences(64, generator)
        optimizer.zero_grad()
        model(input_ids=ids, labels=labels).loss.backward()
        optimizer.step()

    model.eval()
    ids, labels = sequences(500, generator)
    with torch.no_grad():
        accuracy = (model(input_ids=ids).logits.argmax(1) == labels).float().mean()
    print(f"accuracy {100 * accuracy:.1f} % after {steps} steps")
    for name, layer in model.named_modules():
        if isinstance(layer, ibnn.ImplicitLayer):
            print(f"  {name}: lam {layer.effective_lam.item():+.3f}")

    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        # plain from_pretrained would give a standard network: the plan is read by ibnn.load
        again = ibnn.load(folder, BertForSequenceClassification(config)).eval()
    same = torch.equal(again(input_ids=ids).logits, model(input_ids=ids).logits)
    print("back from its folder, the same to the last bit:", same)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Fine-tune a Hugging Face model.")
    parser.add_argument("--steps", type=int, default=60, help="training steps")
    main(parser.parse_args().steps)
