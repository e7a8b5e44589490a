"""The datasets known by name, and the door to all of them."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ibnn.lab.data import verify
from ibnn.lab.data.dataset import Dataset
from ibnn.lab.data.dataset_defaults import Defaults, from_shape
from ibnn.lab.data.download import alone
from ibnn.lab.data.errors import DataError
from ibnn.lab.data.formats.npz import NpzSource
from ibnn.lab.data.formats.text import LENGTH, TextSource
from ibnn.lab.data.known import (
    cifar10,
    digits,
    fashion_mnist,
    kjv,
    mnist,
    plane,
    sums,
    svhn,
    svhn_resplit,
)
from ibnn.lab.data.source import Source
from ibnn.lab.files import StrPath
from ibnn.lab.registry import Registry, expected

SOURCES: Registry[Source] = Registry("dataset")


def register_dataset(source: Source) -> Source:
    """Make a dataset known by its name, here and in every command; gives it back.

    It is then found, loaded, listed and trained on as the ones that come with the laboratory. In
    worker processes it is known too if its module is a plugin (see `ibnn.lab.plugins`).

    Raises:
        ValueError: another dataset has this name.
    """
    SOURCES.register(source.name, source)
    return source


for _known in (
    fashion_mnist.SOURCE,
    mnist.SOURCE,
    cifar10.SOURCE,
    svhn.SOURCE,
    svhn_resplit.SOURCE,
    digits.SOURCE,
    *plane.SOURCES,
    kjv.SOURCE,
    sums.SOURCE,
):
    register_dataset(_known)


@dataclass(frozen=True)
class Status:
    """One line of `ibnn data list`: `size` is in bytes, on disk or, if absent, to download."""

    name: str
    about: str
    present: bool
    size: int
    where: str
    how: str


def names() -> list[str]:
    """The names `load` knows; it also takes the path of an .npz or a .txt file."""
    return list(SOURCES)


def default_root() -> Path:
    """Where datasets are kept: $IBNN_DATA, else ~/.cache/ibnn/data."""
    return Path(os.environ.get("IBNN_DATA") or Path.home() / ".cache" / "ibnn" / "data")


def load(
    name_or_path: StrPath,
    root: StrPath | None = None,
    download: bool = True,
) -> Dataset:
    """The dataset of that name, found below `root` or downloaded; or a user's .npz or .txt file.

    >>> load("arrows")
    Dataset('arrows', 2000 training and 2000 test examples of shape (2,), 2 classes)
    """
    source, folder = _source(name_or_path), _root(root)
    found = source.find(folder)
    if found is None:
        if not download:
            raise DataError(_absent(source, folder))
        get(name_or_path, root)
        found = source.find(folder) or []
    try:
        return source.read(found)
    except DataError as error:
        if not source.remotes:
            raise
        again = f"delete it and run 'ibnn data get {source.name}' to fetch it again"
        raise DataError(*error.problems, again) from error


def get(name_or_path: StrPath, root: StrPath | None = None) -> bool:
    """Downloads what is missing of a dataset below `root`; False if it is all there already."""
    source, folder = _source(name_or_path), _root(root)
    if source.find(folder) is not None:
        return False
    if not source.remotes:
        raise DataError(_absent(source, folder))
    try:
        with alone(folder):
            if source.find(folder) is None:  # somebody else may have fetched it while we waited
                source.download(folder)
    except DataError as error:
        reason = re.sub(r"https?://([^/ ]+)/\S*(?=: )|\[Errno [^]]*\] ", r"\1", error.problems[-1])
        advice = _advice(source, folder)
        raise DataError(f"{source.name} could not be downloaded ({reason}); {advice}") from error
    return True


def check(name_or_path: StrPath, root: StrPath | None = None) -> list[str]:
    """Everything that is wrong with a dataset on disk, one line each; [] if all is well."""
    source, folder = _source(name_or_path), _root(root)
    found = source.find(folder)
    if found is None:
        return [_absent(source, folder)]
    try:
        source.read(found)
    except DataError as error:
        return list(error.problems)
    return []


def status(root: StrPath | None = None) -> list[Status]:
    """What is there and what is not, without reading the files."""
    return [_status(source, _root(root)) for source in SOURCES.values()]


def defaults(
    name_or_path: StrPath,
    image_shape: Sequence[int] | None = None,
    root: StrPath | None = None,
) -> Defaults:
    """What a dataset is by default: network, attack strengths, sizes.

    Args:
        name_or_path: as `load` takes it.
        image_shape: of one example, to spare looking it up where nobody has described the dataset.
        root: where datasets are kept.

    >>> defaults("cifar10").layers, defaults("cifar10").channels
    (3, 8)
    """
    source = _source(name_or_path)
    if source.defaults is not None:
        return source.defaults
    if image_shape is None:
        found = source.find(_root(root))
        if found is None:
            raise DataError(_absent(source, _root(root)))
        image_shape = source.image_shape(found)
    return from_shape(image_shape)


def content_checksum(name_or_path: StrPath, root: StrPath | None = None) -> str | None:
    """What tells a user's own file from any other, wherever it lies; None for a dataset by name.

    The first 16 hexadecimal digits of the sha256 sum of its bytes.
    """
    if os.fspath(name_or_path) in SOURCES:
        return None
    source, folder = _source(name_or_path), _root(root)
    found = source.find(folder)
    if found is None:
        raise DataError(_absent(source, folder))
    return verify.file_sha256(found[0])[:16]


def groups() -> dict[str, list[str]]:
    """The datasets of each group of `ibnn run all`: of a group, the first that is here is used."""
    found: dict[str, list[str]] = {}
    for source in SOURCES.values():
        if source.defaults is not None and source.defaults.group is not None:
            found.setdefault(source.defaults.group, []).append(source.name)
    return found


def _status(source: Source, root: Path) -> Status:
    found = source.find(root)
    if found is None:
        size = sum(remote.size for remote in source.remotes)
        how = f"ibnn data get {source.name}" if source.remotes else source.advice(root)
        return Status(source.name, source.about, False, size, "", how)
    size = sum(path.stat().st_size for path in found)
    where = str(found[0].parent if len(found) > 1 else found[0]) if found else "built in"
    return Status(source.name, source.about, True, size, where, "")


def _source(name_or_path: StrPath) -> Source:
    text = os.fspath(name_or_path)
    if text in SOURCES:
        return SOURCES[text]
    path = Path(text).expanduser()
    if path.suffix == ".npz":
        return NpzSource(path.stem, "a user's own data", str(path.absolute()))
    if path.suffix == ".txt":
        usual = Defaults(image_shape=(LENGTH,), text=True)
        return TextSource(path.stem, "a user's own text", file=str(path.absolute()), defaults=usual)
    known = expected(text, SOURCES, " or the path of an .npz or .txt file")
    raise DataError(f"unknown dataset {text!r}, {known}")


def _root(root: StrPath | None) -> Path:
    return default_root() if root is None else Path(root).expanduser()


def _absent(source: Source, root: Path) -> str:
    return f"{source.name} is not there: {_advice(source, root)}"


def _advice(source: Source, root: Path) -> str:
    without = ", or do without: the dataset digits" if source.name != "digits" else ""
    return source.advice(root) + without
