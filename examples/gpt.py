"""A small GPT on characters, in which every linear layer but the last has the implicit bias.

    python examples/gpt.py --text some_file.txt --steps 500 --lam -0.05

Prints bits per character of text it has not seen, where lam went, and a sample. `--standard` is the
same network without the neuron.
"""

import argparse
import math
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

import ibnn

CONTEXT = 32
SHORTEST = 10 * (CONTEXT + 2)  # a tenth of the text is kept back, and must hold a piece


class Block(nn.Module):
    """Causal self-attention and a feed-forward layer, each on a normalized shortcut."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_feed = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.hidden, self.back = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.attention(self.before_attention(x)).chunk(3, -1)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(mixed.transpose(1, 2).flatten(-2))
        return x + self.back(functional.gelu(self.hidden(self.before_feed(x))))


class GPT(nn.Module):
    def __init__(self, characters: int, width: int = 32, depth: int = 2, heads: int = 2) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(characters, width), nn.Embedding(CONTEXT, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, characters)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.token(ids) + self.place(torch.arange(ids.shape[1]))
        return self.head(self.norm(self.blocks(x)))


def batch(text: Tensor, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Pieces of the text, and the same one character later."""
    starts = torch.randint(len(text) - CONTEXT, (count,), generator=generator)
    pieces = torch.stack([text[s : s + CONTEXT + 1] for s in starts.tolist()])
    return pieces[:, :-1], pieces[:, 1:]


def loss(model: nn.Module, ids: Tensor, following: Tensor) -> Tensor:
    return functional.cross_entropy(model(ids).flatten(0, 1), following.flatten())


@torch.no_grad()
def continued(model: nn.Module, ids: Tensor, count: int, generator: torch.Generator) -> Tensor:
    for _ in range(count):
        chances = model(ids[None, -CONTEXT:])[0, -1].softmax(-1)
        ids = torch.cat([ids, torch.multinomial(chances, 1, generator=generator)])
    return ids


def main(text: str, steps: int = 300, lam: float = -0.05, standard: bool = False) -> float:
    """Trains on nine tenths of the text; the bits per character of the rest."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    characters = sorted(set(text))
    numbers = {character: number for number, character in enumerate(characters)}
    ids = torch.tensor([numbers[character] for character in text])
    seen, unseen = ids[: len(ids) * 9 // 10], ids[len(ids) * 9 // 10 :]

    model: nn.Module = GPT(len(characters))
    if not standard:
        model = ibnn.convert(model, lam=lam, learn_lam=True)
    optimizer = torch.optim.AdamW(ibnn.parameter_groups(model, 3e-3, weight_decay=0.1))
    for step in range(steps):
        optimizer.zero_grad()
        value = loss(model, *batch(seen, 16, generator))
        value.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step}/{steps}: {value.item() / math.log(2):.3f} bits per character")

    with torch.no_grad():
        bits = loss(model, *batch(unseen, 64, generator)).item() / math.log(2)
    print(f"unseen text: {bits:.3f} bits per character")
    for name, layer in model.named_modules():
        if isinstance(layer, ibnn.ImplicitLayer):
            print(f"  {name}: lam {layer.effective_lam.item():+.3f}")
    sample = continued(model, seen[:1], 80, generator)
    print("".join(characters[i] for i in sample.tolist()))
    return bits


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A small GPT with the implicit bias.")
    parser.add_argument("--text", type=Path, default=Path(__file__), help="a UTF-8 text file")
    parser.add_argument("--steps", type=int, default=300, help="training steps")
    parser.add_argument("--lam", type=float, default=-0.05, help="where lam starts")
    parser.add_argument("--standard", action="store_true", help="without the implicit bias")
    given = parser.parse_args()
    text = given.text.read_text(encoding="utf-8")
    if len(text) < SHORTEST:
        parser.error(f"{given.text} has {len(text)} characters, expected at least {SHORTEST}")
    main(text, given.steps, given.lam, given.standard)
