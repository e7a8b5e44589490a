"""Where a network is trained: `auto`, or a device by torch's name for it."""

import torch

from ibnn.lab.training.errors import RunError


class DeviceError(RunError):
    """A device this machine, or its build of torch, does not have."""


def choose_device(name: str | torch.device = "cpu") -> torch.device:
    """The device of that name; `auto` is the first accelerator there is, else the processor.

    >>> choose_device("cpu")
    device(type='cpu')

    Raises:
        DeviceError: there is no such device here.
    """
    if name == "auto":
        return torch.device(_present()[0])
    try:
        device = torch.device(name)
    except RuntimeError:
        raise DeviceError(
            f"device is {name!r}, expected auto, cpu, cuda, cuda:1, mps or another of torch's"
        ) from None
    here = _present()
    if device.type not in [torch.device(one).type for one in here]:
        raise DeviceError(f"device is {str(name)!r}, but here is only {', '.join(here)}")
    if device.index is not None and device.type != "cpu" and str(device) not in here:
        raise DeviceError(f"device is {str(name)!r}, but here are only {', '.join(here)}")
    return device


def _present() -> list[str]:
    """Every device that can be used, the best first."""
    found = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    if hasattr(torch, "xpu") and torch.xpu.is_available():
        found += [f"xpu:{number}" for number in range(torch.xpu.device_count())]
    if torch.backends.mps.is_available():
        found.append("mps")
    return [*found, "cpu"]


def describe(device: torch.device) -> str:
    """Its name, and of a GPU what it is.

    >>> describe(torch.device("cpu"))
    'cpu'
    """
    known = {"cuda": torch.cuda, "xpu": getattr(torch, "xpu", None)}.get(device.type)
    return str(device) if known is None else f"{device} ({known.get_device_name(device)})"


def device_of_worker(name: str, worker: int) -> str:
    """The device of one of several workers: the accelerators of that name, in turn.

    >>> device_of_worker("cpu", 3)
    'cpu'
    """
    device = choose_device(name)
    alike = [one for one in _present() if torch.device(one).type == device.type]
    if device.type == "cpu" or (name != "auto" and device.index is not None):
        return str(device)
    return alike[worker % len(alike)]
