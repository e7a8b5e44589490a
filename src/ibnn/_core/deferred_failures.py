"""Failure flags that are copied from a GPU asynchronously and checked later, without a sync.

To ask a GPU whether all rows were solved is to wait until it has done everything before, in every
pass of every layer. So the flag is sent off, and looked at when it is there: at the next call, when
a layer's `last_solve` is read, or at the end of the program.
"""

import atexit
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

# a host is hardly ever so many calls ahead of its device; beyond, it waits
MAX_PENDING = 256


class Flag(NamedTuple):
    """Whether something failed, when the host will know, and what is to be done then."""

    value: Tensor
    arrival: torch.cuda.Event | None
    tell: Callable[[], None]


_pending: deque[Flag] = deque()


def is_asynchronous(x: Tensor) -> bool:
    """Whether to look at x is to wait for it."""
    return x.device.type != "cpu"


def defer(value: Tensor, tell: Callable[[], None]) -> None:
    """Looks later whether `value` is true, and then calls `tell`."""
    if not value.is_cuda:
        _pending.append(Flag(value, None, tell))
    elif not torch.cuda.is_current_stream_capturing():
        # (a graph runs again without us: then `last_solve` has what its latest run left)
        here = torch.empty((), dtype=value.dtype, pin_memory=True)
        here.copy_(value, non_blocking=True)
        arrival = torch.cuda.Event()
        arrival.record(torch.cuda.current_stream(value.device))
        _pending.append(Flag(here, arrival, tell))


def poll(wait: bool = False) -> None:
    """Tells of what has arrived; with `wait`, of everything."""
    if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        return  # which asking would break
    while _pending:
        try:
            flag = _pending.popleft()
        except IndexError:  # another thread has taken it
            return
        if flag.arrival is not None and not flag.arrival.query():
            if not wait and len(_pending) < MAX_PENDING:
                _pending.appendleft(flag)
                return
            flag.arrival.synchronize()
        if bool(flag.value):
            flag.tell()


atexit.register(poll, wait=True)
