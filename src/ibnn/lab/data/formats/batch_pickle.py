"""Reads the pickled batches of CIFAR-10's python version without trusting them.

An ordinary pickle can run any function. This reader admits the four names that an array of
integers needs, and its own stand-ins for two of them.
"""

import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ibnn.lab.data.errors import DataError


def read_batch_pickle(
    path: Path, data: bytes, pixels: int
) -> tuple[NDArray[np.uint8], NDArray[np.integer]]:
    """Images (N, pixels) and labels of one pickled batch."""
    try:
        batch = _Arrays(io.BytesIO(data), encoding="bytes").load()
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    except Exception as error:  # a damaged pickle fails in any way whatever
        raise DataError(f"{path}: truncated or damaged pickle ({error})") from error
    if not isinstance(batch, dict):
        raise DataError(f"{path}: expected a pickled dict, found {type(batch).__name__}")
    images = batch.get(b"data", batch.get("data"))
    labels = batch.get(b"labels", batch.get("labels"))
    if not (isinstance(images, np.ndarray) and images.dtype == np.uint8 and images.ndim == 2):
        raise DataError(f"{path}: expected 'data' to be a uint8 array (N, {pixels})")
    if images.shape[1] != pixels:
        raise DataError(f"{path}: expected 'data' of shape (N, {pixels}), found {images.shape}")
    if not (isinstance(labels, list) and all(type(label) is int for label in labels)):
        raise DataError(f"{path}: expected 'labels' to be a list of integers")
    if len(labels) != len(images):
        raise DataError(f"{path}: {len(images)} images but {len(labels)} labels")
    return images, np.array(labels, np.int64)


def _dtype(kind: str | bytes, *_: object) -> np.dtype:
    """numpy.dtype for integers only; a copy, since the pickle sets its state."""
    name = kind.decode("ascii") if isinstance(kind, bytes) else kind
    dtype = np.dtype(name, False, True)
    if dtype.kind not in "ui":
        raise DataError(f"expected arrays of integers, found {name}")
    return dtype


def _encode(text: str, encoding: str | bytes) -> bytes:
    """_codecs.encode as Python 3 writes bytes into old pickles; no other codec."""
    if encoding not in ("latin1", b"latin1"):
        raise DataError(f"the pickle asks for the codec {encoding!r}, which is refused")
    return text.encode("latin1")


_RECONSTRUCT: Callable[..., Any] = np.empty(0).__reduce__()[0]  # type: ignore[assignment]

_ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): _dtype,
    ("_codecs", "encode"): _encode,
}


class _Arrays(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        try:
            return _ADMITTED[module_name, global_name]
        except KeyError:
            raise DataError(
                f"the pickle asks for {module_name}.{global_name}, which is refused"
            ) from None
