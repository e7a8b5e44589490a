"""One training by several processes, each on its own device: `torchrun -m ibnn train ...`.

Every process has the whole data and takes its part of each batch; gradients are averaged over the
batch as a whole, so that a step is that of a single process but for batch normalization, which
sees each part for itself. The first process alone validates, writes files and speaks.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ibnn.lab.training.device import device_of_worker

T = TypeVar("T")


@dataclass(frozen=True)
class Group:
    """The processes that train one network; alone, there is one and nothing is exchanged."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process validates, writes files and speaks."""
        return self.rank == 0

    def part(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """What this process learns from a batch."""
        return (x, y) if self.size == 1 else (x[self.rank :: self.size], y[self.rank :: self.size])

    def wrap(self, network: nn.Module) -> nn.Module:
        """The network as it is called in training: its gradients are averaged over the group."""
        return network if self.size == 1 else nn.parallel.DistributedDataParallel(network)

    def share(self, value: T) -> T:
        """The first process's value, in all of them."""
        if self.size == 1:
            return value
        box: list[Any] = [value]
        dist.broadcast_object_list(box, src=0)
        return box[0]

    def total(self, *numbers: float) -> tuple[float, ...]:
        """The sum of each number over the group, in double precision."""
        if self.size == 1:
            return numbers
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, numbers)
        return tuple(map(sum, zip(*values, strict=True)))


def launched() -> Group:
    """This process among those that torchrun has started; alone without it."""
    if not dist.is_available() or not dist.is_torchelastic_launched():
        return Group()
    return Group(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))


def own_device(name: str | torch.device) -> str:
    """The device of this process: of `auto` and `cuda`, the one that is its turn."""
    return device_of_worker(str(name), int(os.environ.get("LOCAL_RANK", "0")))


@contextmanager
def joined(device: torch.device) -> Iterator[Group]:
    """The group of this process, connected for the time of the block."""
    group = launched()
    if group.size == 1:
        yield group
        return
    mine = not dist.is_initialized()
    if mine:
        if device.type == "cuda":
            torch.cuda.set_device(device)
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield group
    finally:
        if mine:
            dist.destroy_process_group()
