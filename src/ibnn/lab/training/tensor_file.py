"""A safetensors file with a description beside its tensors, and a checksum over both."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from ibnn.lab.training.errors import CheckpointError


def packed(about: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> bytes:
    """The contents of such a file."""
    kept = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    text = json.dumps(about)
    return save_tensors(kept, {"about": text, "sha256": _digest(text, kept)})


def unpack(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read and check one: the description and the tensors."""
    try:
        raw = path.read_bytes()
        tensors = load_tensors(raw)
        length = int.from_bytes(raw[:8], "little")
        metadata = json.loads(raw[8 : 8 + length]).get("__metadata__", {})
        text, expected = metadata["about"], metadata["sha256"]
        about = json.loads(text)
    except FileNotFoundError:
        raise CheckpointError(f"{path} does not exist") from None
    except (SafetensorError, ValueError, KeyError, AttributeError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise CheckpointError(f"{path} is damaged, or no file of ours: {reason}") from None
    if expected != _digest(text, tensors):
        raise CheckpointError(f"{path} is damaged: its checksum does not fit its contents")
    return about, tensors


def _digest(about: str, tensors: Mapping[str, Tensor]) -> str:
    state = hashlib.sha256(about.encode())
    for name, value in sorted(tensors.items()):
        state.update(f"\n{name} {value.dtype} {tuple(value.shape)}\n".encode())
        state.update(value.flatten().view(torch.uint8).numpy().data)
    return state.hexdigest()
