"""Convolutions of few channels by a compiled kernel: the paper's networks train in half the time.

torch's convolutions are made for many channels. With three of them they take most of a training
step, and the kernel of the compiled engine takes less than half as long. Every kind of neuron gets
the same convolution, so that all make the same rounding errors.
"""

import ctypes
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.nn import functional as F

from ibnn.engine.native import calls, loader
from ibnn.engine.native.levels import served_here

# The largest product of channels that gains, by what a register holds. Forward + backward of 128
# images, ms of one thread, torch (channels last) / here. Eight floats: 1 -> 3, k4 5.2 / 1.1;
# 3 -> 3, k5 17 / 6.6; 4 -> 4 18 / 11; 6 -> 6 27 / 21; 3 -> 8 (first layer) 6.8 / 8.3; 8 -> 8
# 23 / 38. Sixteen, for which torch fills up channels to sixteen (the least of 30 in turn, beside
# two trainings): 3 -> 3 26 / 3.4; 8 -> 8 67 / 17; 8 -> 12 69 / 24; 16 -> 16 84 / 63.
MOST = 256 if "x86-64-v4" in served_here() else 16


def use_compiled_convolution(network: nn.Module) -> nn.Module:
    """The same network, whose convolutions of few channels are made by the compiled kernel.

    Only those of stride 1 without padding, dilation or groups, on CPU tensors of float32; any
    other call goes to torch as before. Weights, names and class of the layers stay, but a layer
    that was quickened is not converted by `ibnn.convert`: for networks that are only called.
    """
    if not loader.available():
        return network
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d) and _serves(layer):
            layer._conv_forward = _convolve
    return network


def uses_compiled_convolution(layer: nn.Module) -> bool:
    """Whether the layer was quickened."""
    return vars(layer).get("_conv_forward") is _convolve


def _serves(layer: nn.Conv2d) -> bool:
    plain = layer.stride == (1, 1) and layer.dilation == (1, 1) and layer.groups == 1
    few = layer.in_channels * layer.out_channels <= MOST
    return plain and few and layer.padding in ((0, 0), "valid")


def _convolve(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    if (
        _plain(input)
        and _plain(weight)
        and input.ndim == 4
        and not torch.is_autocast_enabled("cpu")
    ):
        return _Convolution.apply(input, weight, bias)  # type: ignore[return-value]
    return F.conv2d(input, weight, bias)


def _plain(t: Tensor) -> bool:
    """A float32 tensor of the CPU that holds numbers: not traced, not batched."""
    return (
        t.is_cpu
        and t.dtype == torch.float32
        and type(t) in (Tensor, nn.Parameter)
        and not is_functorch_wrapped_tensor(t)
        and not torch.compiler.is_compiling()
    )


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.biased = bias is not None
        images, channels, height, width = x.shape
        out, kernel = weight.shape[0], weight.shape[2:]
        size = height - kernel[0] + 1, width - kernel[1] + 1
        if x.shape[1] != weight.shape[1] or min(size) < 1:
            return F.conv2d(x, weight, bias)  # which says what is wrong
        y = x.new_empty(images, out, *size)
        sizes = (images, channels, out, *size, *kernel)
        own = None if bias is None else bias.contiguous()
        _run("convolve", x, x.stride(), weight.contiguous(), own, sizes, y)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (g,), (x, weight) = gradients, ctx.saved_tensors
        to_x, to_weight, to_bias = ctx.needs_input_grad
        if torch.is_grad_enabled():  # the gradient is to be differentiated itself
            made = torch.ops.aten.convolution_backward(
                *(g, x, weight, [len(weight)] if ctx.biased else None),
                *([1, 1], [0, 0], [1, 1], False, [0, 0], 1),
                [to_x, to_weight, to_bias and ctx.biased],
            )
            return tuple(made)
        dx = x.new_empty(x.shape) if to_x else None
        dweight = weight.new_empty(weight.shape) if to_weight else None
        if dx is not None or dweight is not None:
            g = g.contiguous()
            sizes = (*x.shape[:2], len(weight), *g.shape[2:], *weight.shape[2:])
            given = x, x.stride(), weight.contiguous(), g
            _run("convolution_gradients", *given, sizes, dx, dweight)
        return dx, dweight, g.sum((0, 2, 3)) if to_bias else None


def _run(name: str, *arguments: "Tensor | tuple[int, ...] | None") -> None:
    given = [a.data_ptr() if isinstance(a, Tensor) else _longs(a) for a in arguments]
    calls.run(name, torch.float32, *given)


def _longs(numbers: "tuple[int, ...] | None") -> Any:
    return None if numbers is None else (ctypes.c_long * len(numbers))(*numbers)
