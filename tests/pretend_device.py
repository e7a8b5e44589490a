"""A CUDA device that is not there: CPU tensors that say they are on it, and mind the difference.

As on a GPU, an operation on tensors of two devices is an error, numpy takes none of them, and a
CPU generator fills none; unlike a fake tensor it has numbers, so that code which looks at them runs
to its end. Launches, looks at numbers, which a device must be waited for, and copies to the device,
for which torch waits too, are counted. torch.func takes no tensors like these.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_map_only

CUDA = torch.device("cuda:0")
# memory is not moved by these
NO_LAUNCH = {"alias", "as_strided", "as_strided_", "detach", "detach_", "expand", "numpy_T"}
NO_LAUNCH |= {"permute", "reshape", "select", "slice", "split", "split_with_sizes", "squeeze", "t"}
NO_LAUNCH |= {"transpose", "unbind", "unfold", "unsqueeze", "view", "squeeze_", "unsqueeze_"}
NO_LAUNCH |= {"empty", "empty_like", "new_empty", "_unsafe_view", "_reshape_alias", "diagonal"}
LOOKS = {"_local_scalar_dense", "equal", "is_nonzero", "item", "nonzero", "unique", "_unique2"}
LOOKS |= {"masked_select"}
# torch lets these mix devices: copies, and an index of the host
MAY_MIX = {"copy_", "_to_copy", "index", "index_put_", "index_put", "_index_put_impl_"}


class OnDevice(torch.Tensor):
    """A CPU tensor that says it is on `CUDA`."""

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return CUDA

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function.namespace == "ibnn":  # looked into
            cpu = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
            with Places():  # which is off inside of what it was asked about
                return function.redispatch(cpu, *args, **kwargs)
        name = function.overloadpacket.__name__
        tensors = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, torch.Tensor)]
        strangers = [x for x in tensors if not isinstance(x, OnDevice) and x.ndim]
        if Places.backward:  # autograd's own zeros, for outputs without a gradient
            strangers = [x for x in strangers if bool(x.any())]
        if strangers and name not in MAY_MIX:
            raise RuntimeError(
                f"{name}: expected all tensors to be on the same device, found cuda:0 and cpu"
            )
        by_truth = name in ("index", "index_put_", "index_put") and any(
            i is not None and i.dtype in (torch.bool, torch.uint8) for i in args[1]
        )
        Counts.now.looks += name in LOOKS or by_truth
        Counts.now.launches += name not in NO_LAUNCH and name not in LOOKS
        with torch._C._DisableTorchDispatch():
            result = function(*args, **kwargs)
        return tree_map_only(torch.Tensor, on_device, result)


class Counts:
    """What the device was asked to do since the last `counted`."""

    now: "Counts"

    def __init__(self) -> None:
        self.launches = self.looks = self.uploads = 0


Counts.now = Counts()


def on_device(x: torch.Tensor) -> torch.Tensor:
    """The same numbers, taken for those of the device."""
    if isinstance(x, OnDevice):
        return x
    with torch._C.DisableTorchFunction():
        return torch.Tensor._make_subclass(OnDevice, x.detach(), x.requires_grad)


def on_host(x: torch.Tensor) -> torch.Tensor:
    """A copy that numpy takes; the device was waited for."""
    Counts.now.looks += 1
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        return x.detach().as_subclass(torch.Tensor).clone()


class Places(TorchFunctionMode):
    """Makes tensors on the device where they are asked for, and moves them there and back."""

    backward = 0  # passes under way

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        name = getattr(function, "__name__", "")
        there = bool(args) and isinstance(args[0], OnDevice)
        if there and name in ("numpy", "__array__"):
            raise TypeError("can't convert cuda:0 device type tensor to numpy")
        if there and name == "tolist":
            return on_host(args[0]).tolist()
        if name in ("to", "cpu", "cuda"):
            return _moved(name, args, kwargs)
        if there and name in ("as_tensor", "asarray") and not kwargs.get("device"):
            return args[0].to(kwargs.get("dtype") or args[0].dtype)
        wanted = kwargs.get("device")
        if wanted is None or torch.device(wanted).type != CUDA.type:
            result = function(*args, **kwargs)
            return on_device(result) if there and name == "new_tensor" else result
        if kwargs.get("generator") is not None:
            raise RuntimeError("expected a 'cuda' device type for generator but found 'cpu'")
        data = [x for x in args if isinstance(x, torch.Tensor) and not isinstance(x, OnDevice)]
        if data and name not in ("tensor", "as_tensor", "asarray") and not name.endswith("_like"):
            raise RuntimeError(f"{name}: a tensor of the CPU, but device cuda:0")
        result = function(*args, **{**kwargs, "device": "cpu"})
        if name in ("tensor", "as_tensor", "asarray"):
            Counts.now.uploads += 1
        else:
            Counts.now.launches += name not in NO_LAUNCH
        return on_device(result)


def _moved(name: str, args: tuple, kwargs: dict) -> torch.Tensor:
    x, rest = args[0], list(args[1:])
    place = {"cpu": torch.device("cpu"), "cuda": CUDA}.get(name)
    other = kwargs.pop("other", None)
    if rest and isinstance(rest[0], torch.Tensor):
        other = rest.pop(0)
    if other is not None:
        place, kwargs["dtype"] = other.device, kwargs.get("dtype", other.dtype)
    given = kwargs.pop("device", None)
    if rest and (rest[0] is None or isinstance(rest[0], (str, torch.device))):
        given = rest.pop(0)
    if given is not None:
        place = torch.device(given)
    wanted = [v for v in rest if isinstance(v, torch.dtype)]
    waits = not kwargs.pop("non_blocking", False)
    dtype = kwargs.pop("dtype", None) or (wanted[0] if wanted else x.dtype)
    with torch._C.DisableTorchFunctionSubclass():
        moved = torch.Tensor.to(x, dtype=dtype, **kwargs)
    if place is None or place.type == x.device.type:
        return moved
    if place.type == CUDA.type:
        Counts.now.uploads += waits
        return Across.apply(moved, on_device)
    return Across.apply(moved, on_host)


class Across(torch.autograd.Function):
    """A copy to another device; gradients are copied back."""

    @staticmethod
    def forward(ctx, x, copy):  # type: ignore[override]
        ctx.copy = on_host if copy is on_device else on_device
        return copy(x.clone())

    @staticmethod
    def backward(ctx, g):  # type: ignore[override]
        return ctx.copy(g), None


@contextmanager
def pretended() -> Iterator[None]:
    """Within, `cuda:0` exists."""
    before = torch.__future__.get_overwrite_module_params_on_conversion()
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    autograd: Any = torch.autograd
    engine = autograd._engine_run_backward

    def run(*args, **kwargs):
        Places.backward += 1
        try:
            with Places():  # which is off inside of `backward`
                return engine(*args, **kwargs)
        finally:
            Places.backward -= 1

    autograd._engine_run_backward = run
    try:
        with Places():
            yield
    finally:
        autograd._engine_run_backward = engine
        torch.__future__.set_overwrite_module_params_on_conversion(before)


@contextmanager
def counted() -> Iterator[Counts]:
    """Launches and looks of what is inside."""
    Counts.now = Counts()
    yield Counts.now
