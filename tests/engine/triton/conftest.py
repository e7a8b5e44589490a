"""Triton's interpreter runs the kernels on CPU tensors here.

It is chosen when triton is imported, so that is done now, before any test can import it otherwise.
"""

import importlib.util
import os
from collections.abc import Iterator

import pytest

from tests.engine.triton import whole_arrays

VARIABLE = "TRITON_INTERPRET"

if importlib.util.find_spec("triton") is not None:
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = "1"
    import triton.language as tl
    from triton.runtime.interpreter import InterpretedFunction

    import ibnn.engine.triton.launch  # noqa: F401

    if before is None:
        del os.environ[VARIABLE]
    if not isinstance(tl.sum, InterpretedFunction):
        raise pytest.UsageError(f"triton was imported without {VARIABLE}=1 before its tests were")


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The interpreter, and its two slowest operations on whole arrays."""
    pytest.importorskip("triton", reason="triton is not installed")
    monkeypatch.setenv(VARIABLE, "1")
    with whole_arrays.quick():
        yield
