"""A user's own data: one .npz with x_train, y_train, x_test, y_test.

x is uint8, or floats in [0, 1], of shape (N, H, W), (N, C, H, W) or (N, H, W, C) with C from 1 to
4; or floats (N, F), points without a picture. Where C could be either axis, a string `layout` in
the file ("NCHW" or "NHWC") decides. y holds integers from 0; an integer `classes` is optional.
"""

import lzma
import math
import os
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
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
from ibnn.lab.data.source import FileSource

_CHANNELS = (1, 2, 3, 4)
_REQUIRED = ("x_train", "y_train", "x_test", "y_test")
_OPTIONAL = ("layout", "classes")
_MOST_CLASSES = 1 << 16  # a network has an output for each: more is a slip, not a dataset
_ENCRYPTED = 0x1  # flag of a member of a zip archive
# How many bytes one packed byte can become: deflate's longest match is 258 bytes in 2 bits; the
# other two have no such bound worth having.
_LARGEST_RATIO = {
    zipfile.ZIP_STORED: 1,
    zipfile.ZIP_DEFLATED: 1032,
    zipfile.ZIP_BZIP2: 1 << 20,
    zipfile.ZIP_LZMA: 1 << 20,
}
_COMPRESSION = tuple(_LARGEST_RATIO)
_UNPACKING = (zlib.error, lzma.LZMAError)


@dataclass(frozen=True)
class NpzSource(FileSource):
    """One .npz file."""

    def read(self, files: Sequence[Path]) -> Dataset:
        return read_npz(files[0], self.name)

    def image_shape(self, files: Sequence[Path]) -> tuple[int, ...]:
        """From the file's header alone."""
        shape, layout = _shape(files[0])
        if layout == "NHW":
            return 1, *shape[1:]
        return (shape[3], shape[1], shape[2]) if layout == "NHWC" else shape[1:]


def read_npz(path: Path, name: str) -> Dataset:
    """The dataset in an .npz file."""
    arrays = _arrays(path)
    if lacking := [key for key in _REQUIRED if key not in arrays]:
        found = ", ".join(arrays) or "nothing"
        raise DataError(f"{path}: expected {', '.join(_REQUIRED)}; no {lacking[0]}, found {found}")
    layout = _layout(path, arrays["x_train"].shape, arrays.get("layout"))
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


def _arrays(path: Path) -> dict[str, Any]:
    """Our arrays of the archive: nothing else in it is unpacked, however large."""
    with _opened(path) as archive:
        members = _members(path, archive, (*_REQUIRED, *_OPTIONAL))
        for key, member in members.items():
            _check_size(path, key, member, _header(path, archive, key, member))
        _check_memory(path, sum(member.file_size for member in members.values()))
        return {key: _array(archive, member) for key, member in members.items()}


def _shape(path: Path) -> tuple[tuple[int, ...], str]:
    """The shape of x_train and its layout, from the archive's headers alone."""
    with _opened(path) as archive:
        members = _members(path, archive, ("x_train", "layout"))
        if "x_train" not in members:
            raise DataError(f"{path}: expected {', '.join(_REQUIRED)}; no x_train found")
        shape = _header(path, archive, "x_train", members["x_train"])[0]
        text = _array(archive, members["layout"]) if "layout" in members else None
    return shape, _layout(path, shape, text)


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (ValueError, EOFError, KeyError, SyntaxError, zipfile.BadZipFile, *_UNPACKING) as error:
        # numpy takes whatever it does not know for a pickle, and says so at length.
        raise DataError(f"{path}: truncated, damaged or not an .npz of plain arrays") from error
    except NotImplementedError as error:
        raise DataError(f"{path}: {str(error).lower()}; save it with numpy.savez") from error
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from error


def _members(
    path: Path, archive: zipfile.ZipFile, wanted: Sequence[str]
) -> dict[str, zipfile.ZipInfo]:
    found = {member.filename: member for member in archive.infolist()}
    members = {key: found[f"{key}.npy"] for key in wanted if f"{key}.npy" in found}
    for key, member in members.items():
        if member.flag_bits & _ENCRYPTED:
            raise DataError(f"{path}: {key} is encrypted, expected a plain .npz")
        if member.compress_type not in _COMPRESSION:
            raise DataError(
                f"{path}: {key} is packed by method {member.compress_type}, which is unknown here; "
                "save it with numpy.savez or numpy.savez_compressed"
            )
    return members


def _header(
    path: Path, archive: zipfile.ZipFile, key: str, member: zipfile.ZipInfo
) -> tuple[tuple[int, ...], np.dtype, int]:
    """Shape, type and length of the header of one array."""
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }.get(version)
        if read is None:
            raise DataError(f"{path}: {key} has version {version} of numpy's format")
        shape, _, dtype = read(file)
        return shape, dtype, file.tell()


def _check_size(
    path: Path,
    key: str,
    member: zipfile.ZipInfo,
    header: tuple[tuple[int, ...], np.dtype, int],
) -> None:
    """What is allocated is what the archive holds, and what so many packed bytes can unpack to."""
    shape, dtype, start = header
    if dtype.hasobject:
        raise DataError(f"{path}: {key} holds Python objects, expected plain numbers")
    promised = math.prod(shape) * dtype.itemsize
    if promised != member.file_size - start:
        raise DataError(
            f"{path}: {key} promises {promised} bytes for shape {shape} and holds "
            f"{member.file_size - start}"
        )
    if member.file_size > _LARGEST_RATIO[member.compress_type] * member.compress_size + 1000:
        raise DataError(f"{path}: {key} cannot hold {member.file_size} bytes: a damaged archive")


def _check_memory(path: Path, size: int) -> None:
    """Refuse what cannot fit; where the machine does not say what it has, try."""
    with suppress(AttributeError, ValueError, OSError):
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if size > memory:
            raise DataError(
                f"{path}: its arrays need {size / 1e9:.1f} GB, this machine has {memory / 1e9:.1f}"
            )


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    with archive.open(member) as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def _layout(path: Path, shape: tuple[int, ...], text: NDArray[Any] | None) -> str:
    """The axes of x_train: NF, NHW, NCHW or NHWC."""
    if len(shape) in (2, 3):
        return "NF" if len(shape) == 2 else "NHW"
    if len(shape) != 4:
        raise DataError(
            f"{path}: expected x_train of shape (N, F), (N, H, W), (N, C, H, W) or (N, H, W, C), "
            f"found {shape}"
        )
    if text is not None:
        layout = str(text)
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
    if classes > _MOST_CLASSES:
        raise DataError(f"{path}: {classes} classes, expected at most {_MOST_CLASSES}")
    return classes
