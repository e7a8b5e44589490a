"""A user's own data: one .npz with x_train, y_train, x_test, y_test.

x is uint8, or floats in [0, 1], of shape (N, H, W), (N, C, H, W) or (N, H, W, C) with C from 1 to
4; or floats (N, F), points without a picture. Where C could be either axis, a string `layout` in
the file ("NCHW" or "NHWC") decides. y holds integers from 0; an integer `classes` is optional.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ibnn.lab.data import verify
from ibnn.lab.data.dataset import Dataset
from ibnn.lab.data.errors import DataError, every
from ibnn.lab.data.source import Source

_CHANNELS = (1, 2, 3, 4)
_REQUIRED = ("x_train", "y_train", "x_test", "y_test")


@dataclass(frozen=True)
class NpzSource(Source):
    """One .npz file, below the root or anywhere (an absolute path)."""

    file: str

    def find(self, root: Path) -> list[Path] | None:
        path = root / self.file
        return [path] if path.is_file() else None

    def read(self, files: Sequence[Path]) -> Dataset:
        return read_npz(files[0], self.name)

    def advice(self, root: Path) -> str:
        return f"put {Path(self.file).name} into {(root / self.file).parent}"


def read_npz(path: Path, name: str) -> Dataset:
    """The dataset in an .npz file."""
    arrays = _arrays(path)
    if lacking := [key for key in _REQUIRED if key not in arrays]:
        found = ", ".join(arrays) or "nothing"
        raise DataError(f"{path}: expected {', '.join(_REQUIRED)}; no {lacking[0]}, found {found}")
    layout = _layout(path, arrays)
    jobs = [partial(_examples, path, key, arrays[key], layout) for key in ("x_train", "x_test")]
    x_train, x_test = every(jobs)
    every(partial(_check_labels, path, key, arrays[key]) for key in ("y_train", "y_test"))
    for split, x in (("train", x_train), ("test", x_test)):
        count = len(arrays[f"y_{split}"])
        verify.same_count(f"{path}: x_{split}", len(x), f"y_{split}", count)
    if x_train.shape[1:] != x_test.shape[1:] or x_train.dtype != x_test.dtype:
        raise DataError(
            f"{path}: x_train is {arrays['x_train'].dtype} {arrays['x_train'].shape} but x_test is "
            f"{arrays['x_test'].dtype} {arrays['x_test'].shape}; expected the same but for N"
        )
    classes = _classes(path, arrays)
    for key in ("y_train", "y_test"):
        verify.labels(f"{path}: {key}", arrays[key], 0, classes - 1)
    y_train, y_test = (
        torch.from_numpy(arrays[key].astype(np.int64)) for key in ("y_train", "y_test")
    )
    return Dataset(name, x_train, y_train, x_test, y_test, classes, tuple(x_train.shape[1:]))


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with path.open("rb") as file:
            contents = np.load(file, allow_pickle=False)
            if isinstance(contents, np.ndarray):
                raise DataError(f"{path}: expected an .npz archive, found a single array")
            with contents:
                return {key: contents[key] for key in contents.files}
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error, KeyError) as error:
        # numpy takes whatever it does not know for a pickle, and says so at length.
        raise DataError(f"{path}: truncated, damaged or not an .npz of plain arrays") from error
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from error


def _layout(path: Path, arrays: dict[str, NDArray[Any]]) -> str:
    """The axes of x_train: NF, NHW, NCHW or NHWC."""
    shape = arrays["x_train"].shape
    if len(shape) in (2, 3):
        return "NF" if len(shape) == 2 else "NHW"
    if len(shape) != 4:
        raise DataError(
            f"{path}: expected x_train of shape (N, F), (N, H, W), (N, C, H, W) or (N, H, W, C), "
            f"found {shape}"
        )
    if "layout" in arrays:
        layout = str(arrays["layout"])
        if layout not in ("NCHW", "NHWC"):
            raise DataError(f"{path}: expected layout to be NCHW or NHWC, found {layout!r}")
        return layout
    first, last = shape[1] in _CHANNELS, shape[3] in _CHANNELS
    if first == last:
        what = "both" if first else "neither"
        raise DataError(
            f"{path}: x_train has shape {shape}, where {what} of axes 1 and 3 could be the "
            "channels (1 to 4); save a string layout='NCHW' or 'NHWC' in the file"
        )
    return "NCHW" if first else "NHWC"


def _examples(path: Path, key: str, x: NDArray[Any], layout: str) -> Tensor:
    if x.ndim != len(layout) or 0 in x.shape:
        raise DataError(
            f"{path}: expected {key} with {len(layout)} axes ({layout}), none of them empty, "
            f"found shape {x.shape}"
        )
    floating = np.issubdtype(x.dtype, np.floating)
    if layout == "NF":
        if not floating:
            raise DataError(
                f"{path}: {key} is {x.dtype} of shape {x.shape}; expected floats for points, "
                "or images reshaped to (N, H, W)"
            )
    elif not floating and x.dtype != np.uint8:
        raise DataError(f"{path}: {key} is {x.dtype}, expected uint8 or floats in [0, 1]")
    if floating:
        x = x.astype(np.float32)
        low, high = float(x.min()), float(x.max())
        if not (np.isfinite(low) and np.isfinite(high)):
            raise DataError(f"{path}: {key} has values that are not finite")
        if layout != "NF" and (low < 0 or high > 1):
            raise DataError(
                f"{path}: {key} has floats from {low:g} to {high:g}, expected 0 to 1 "
                "(or uint8 from 0 to 255)"
            )
    if layout == "NHW":
        x = x[:, None]
    elif layout == "NHWC":
        x = x.transpose(0, 3, 1, 2)
    return torch.from_numpy(np.ascontiguousarray(x))


def _check_labels(path: Path, key: str, y: NDArray[Any]) -> None:
    if y.ndim != 1 or not np.issubdtype(y.dtype, np.integer):
        raise DataError(
            f"{path}: expected {key} to be integers of shape (N,), found {y.dtype} {y.shape}"
        )


def _classes(path: Path, arrays: dict[str, NDArray[Any]]) -> int:
    if "classes" not in arrays:
        classes = int(arrays["y_train"].max()) + 1
    elif arrays["classes"].shape == () and np.issubdtype(arrays["classes"].dtype, np.integer):
        classes = int(arrays["classes"])
    else:
        raise DataError(f"{path}: expected classes to be one integer")
    if classes < 2:
        raise DataError(f"{path}: expected at least two classes, found labels up to {classes - 1}")
    return classes
