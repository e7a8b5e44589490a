"""Randomness by purpose: each use of a seed gets a generator of its own."""

import hashlib

import torch


def generator(seed: int, purpose: str, index: int = 0) -> torch.Generator:
    """A generator for one purpose ("weights", "order", ...) and one index (the epoch).

    Nothing drawn for one purpose shifts another, and the order of epoch 7 does not depend on
    how the run got there: a resumed run needs no saved generator state.
    """
    digest = hashlib.sha256(f"{seed}/{purpose}/{index}".encode()).digest()
    # The Mersenne twister of torch takes 32 bits of seed.
    return torch.Generator().manual_seed(int.from_bytes(digest[:4], "little"))
