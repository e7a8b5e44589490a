"""What depends on where the rows are: precision of products, sizes of blocks, when to look."""

import numpy as np
import torch
from torch import Tensor

from ibnn._tensors import has_doubles

# numbers of a block of rows, two for each node: on a CPU smaller ones cost calls and larger ones
# memory (96 narrow or 77 wide rows of 784 units take 4 to 5 MB at a time); a device wants few
# launches
BLOCK, DEVICE_BLOCK = 128_000, 1 << 22


def on_host(rows: Tensor) -> bool:
    """Whether looking at a number costs nothing: elsewhere it waits for all that was launched."""
    return rows.device.type == "cpu"


def look(*values: Tensor) -> list[np.ndarray]:
    """Some numbers of each row on the host, in doubles, at the price of one look."""
    wide = torch.float64 if has_doubles(values[0]) else values[0].dtype
    return list(torch.stack([v.to(wide) for v in values]).cpu().numpy().astype(np.float64))


def send(values: np.ndarray, rows: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Numbers of the host to where the rows are, without waiting: CUDA takes a copy of ordinary
    memory before it comes back."""
    given = torch.from_numpy(values)
    at_once = rows.device.type != "cuda"
    return given.to(rows.device, dtype or given.dtype, non_blocking=not at_once)


def node_dtype(rows: Tensor) -> torch.dtype:
    """The dtype of what lives on nodes. Products of float32 matrices may be rounded to 10 bits
    (TF32, or bfloat16 on some CPUs), as the user's settings have it; doubles never are."""
    exact = on_host(rows) and torch.get_float32_matmul_precision() == "highest"
    return rows.dtype if exact or not has_doubles(rows) else torch.float64


def octaves_per_grid(rows: Tensor) -> float:
    """How much shorter wide rows may be than the longest with which they share a grid: a whole
    octave is nodes that most do not need, a quarter many blocks; a device wants few
    launches."""
    return 0.5 if on_host(rows) else 1


def rows_per_block(rows: Tensor, nodes: int) -> int:
    """How many rows of a grid of so many nodes are solved at a time."""
    units = rows.shape[1]
    if not on_host(rows):
        return max(1, DEVICE_BLOCK // units)
    return max(1, BLOCK // (units + 2 * nodes))
