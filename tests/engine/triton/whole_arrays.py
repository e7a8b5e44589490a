"""Triton's interpreter scans, and sums by xor, one element at a time: here, whole arrays at a time.

The same results but for rounding (`test_whole_arrays.py`), a hundred times sooner. It also makes
the language its own at every call of a function inside a kernel, which here is done once.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

# the interpreter's functions while they are replaced
OWN: dict[str, Callable] = {}


@contextmanager
def quick() -> Iterator[None]:
    import triton.language as tl
    from triton.runtime import interpreter
    from triton.runtime.interpreter import InterpretedFunction, ReduceOps, ScanOps

    own_call, is_builtin = InterpretedFunction.__call__, tl.core.is_builtin
    scan, reduce = OWN["scan"], OWN["reduce"] = ScanOps.generic_scan, ReduceOps.apply_impl

    def scan_arrays(self, inputs):
        """Every result is combined with the one 1, 2, 4, ... places before it (Hillis, Steele)."""
        combine = self.combine_fn.rewrite()
        found = [np.moveaxis(x.handle.data, self.axis, -1).copy() for x in inputs]
        distance = 1
        while distance < found[0].shape[-1]:
            earlier = [np.roll(x, distance, -1) for x in found]
            pairs = [
                self.to_tensor(np.ascontiguousarray(x), like.dtype)
                for side in (earlier, found)
                for x, like in zip(side, inputs, strict=True)
            ]
            joined = combine(*pairs)
            for x, new in zip(found, joined if len(inputs) > 1 else (joined,), strict=True):
                x[..., distance:] = new.handle.data[..., distance:]
            distance *= 2
        found = [np.ascontiguousarray(np.moveaxis(x, -1, self.axis)) for x in found]
        return [self.to_tensor(x, like.dtype) for x, like in zip(found, inputs, strict=True)]

    def reduce_arrays(self, inputs):
        if self.combine_fn is not tl.standard._xor_combine:
            return reduce(self, inputs)
        (x,) = inputs
        result = np.bitwise_xor.reduce(x.handle.data, axis=self.axis, keepdims=self.keep_dims)
        return self.to_tensor(result, x.dtype)

    def call(self, *args, **kwargs):
        if is_builtin(tl.arange) or is_builtin(tl.core.arange):
            return own_call(self, *args, **kwargs)
        try:
            return self.rewrite()(*args, **kwargs)
        except Exception as error:
            raise interpreter.InterpreterError(repr(error)) from error

    ScanOps.generic_scan, ReduceOps.apply_impl = scan_arrays, reduce_arrays
    InterpretedFunction.__call__ = call
    # of points that a kernel computes and does not use
    with np.errstate(all="ignore"):
        try:
            yield
        finally:
            ScanOps.generic_scan, ReduceOps.apply_impl = scan, reduce
            InterpretedFunction.__call__ = own_call
