"""The datasets known by name, their official addresses, and the door to all of them."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from pathlib import Path

from ibnn.lab.data import plane
from ibnn.lab.data.cifar import CifarSource
from ibnn.lab.data.dataset import Dataset
from ibnn.lab.data.digits import DigitsSource
from ibnn.lab.data.download import alone
from ibnn.lab.data.errors import DataError
from ibnn.lab.data.idx import IdxFile, IdxSource
from ibnn.lab.data.npz import NpzSource
from ibnn.lab.data.plane import PlaneSource
from ibnn.lab.data.source import Remote, Source
from ibnn.lab.data.svhn import SvhnSource

_FASHION = (
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
    "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion",
)
_MNIST = ("https://ossci-datasets.s3.amazonaws.com/mnist", "http://yann.lecun.com/exdb/mnist")
_CIFAR = "https://www.cs.toronto.edu/~kriz"
_SVHN = "http://ufldl.stanford.edu/housenumbers"


def _idx(places: tuple[str, ...], name: str, size: int, md5: str, content_md5: str) -> IdxFile:
    return IdxFile(Remote(tuple(f"{place}/{name}" for place in places), md5, size), content_md5)


_ALL: tuple[Source, ...] = (
    IdxSource(
        "fashion-mnist",
        "60,000 + 10,000 pictures of clothes, 28 x 28, grey",
        ("FashionMNIST/raw", "fashion-mnist", "FashionMNIST"),
        _idx(
            _FASHION,
            "train-images-idx3-ubyte.gz",
            26421880,
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        ),
        _idx(
            _FASHION,
            "train-labels-idx1-ubyte.gz",
            29515,
            "25c81989df183df01b3e8a0aad5dffbe",
            "9018921c3c673c538a1fc5bad174d6f9",
        ),
        _idx(
            _FASHION,
            "t10k-images-idx3-ubyte.gz",
            4422102,
            "bef4ecab320f06d8554ea6380940ec79",
            "8181f5470baa50b63fa0f6fddb340f0a",
        ),
        _idx(
            _FASHION,
            "t10k-labels-idx1-ubyte.gz",
            5148,
            "bb300cfdad3c16e7a12a480ee83cd310",
            "15d484375f8d13e6eb1aabb0c3f46965",
        ),
    ),
    IdxSource(
        "mnist",
        "60,000 + 10,000 handwritten digits, 28 x 28, grey",
        ("MNIST/raw", "mnist", "MNIST"),
        _idx(
            _MNIST,
            "train-images-idx3-ubyte.gz",
            9912422,
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "6bbc9ace898e44ae57da46a324031adb",
        ),
        _idx(
            _MNIST,
            "train-labels-idx1-ubyte.gz",
            28881,
            "d53e105ee54ea40749a09fcbcd1e9432",
            "a25bea736e30d166cdddb491f175f624",
        ),
        _idx(
            _MNIST,
            "t10k-images-idx3-ubyte.gz",
            1648877,
            "9fb629c4189551a2d022fa330f9573f3",
            "2646ac647ad5339dbf082846283269ea",
        ),
        _idx(
            _MNIST,
            "t10k-labels-idx1-ubyte.gz",
            4542,
            "ec29112dd5afa0611ce80d1b7f02629c",
            "27ae3e4e09519cfbb04c329615203637",
        ),
    ),
    CifarSource(
        "cifar10",
        "50,000 + 10,000 photographs of ten things, 32 x 32, colour",
        archive=Remote(
            (f"{_CIFAR}/cifar-10-binary.tar.gz",), "c32a1d4ab5d03f1284b67883e8d87530", 170052171
        ),
        binary={
            "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
            "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
            "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
            "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
            "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
            "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
        },
        python={
            "data_batch_1": "c99cafc152244af753f735de768cd75f",
            "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
            "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
            "data_batch_4": "634d18415352ddfa80567beed471001a",
            "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
            "test_batch": "40351d587109b95175f43aff81a1287e",
        },
    ),
    SvhnSource(
        "svhn",
        "73,257 + 26,032 house numbers, 32 x 32, colour; for non-commercial use",
        train=Remote((f"{_SVHN}/train_32x32.mat",), "e26dedcc434d2e4c54c9b2d4a06d8373", 182040794),
        test=Remote((f"{_SVHN}/test_32x32.mat",), "eb5a983be6a315427106f1b164d9cef3", 64275384),
    ),
    NpzSource(
        "svhn-resplit",
        "a re-split of the SVHN test split, not the split of the paper; for non-commercial use",
        file="svhn_resplit.npz",
    ),
    DigitsSource("digits", "1,438 + 359 handwritten digits, 8 x 8, grey, from scikit-learn"),
    *(PlaneSource(name, about) for name, about in plane.ABOUT.items()),
)

SOURCES: dict[str, Source] = {source.name: source for source in _ALL}


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
    """The names `load` knows; it also takes the path of an .npz file."""
    return list(SOURCES)


def default_root() -> Path:
    """Where datasets are kept: $IBNN_DATA, else ~/.cache/ibnn/data."""
    return Path(os.environ.get("IBNN_DATA") or Path.home() / ".cache" / "ibnn" / "data")


def load(
    name_or_path: str | os.PathLike[str],
    root: str | os.PathLike[str] | None = None,
    download: bool = True,
) -> Dataset:
    """The dataset of that name, found below `root` or downloaded; or a user's .npz file.

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


def get(name_or_path: str | os.PathLike[str], root: str | os.PathLike[str] | None = None) -> None:
    """Downloads what is missing of a dataset below `root`; does nothing if it is all there."""
    source, folder = _source(name_or_path), _root(root)
    if source.find(folder) is not None:
        return
    if not source.remotes:
        raise DataError(_absent(source, folder))
    try:
        with alone(folder):
            if source.find(folder) is None:  # somebody else may have fetched it while we waited
                source.download(folder)
    except DataError as error:
        raise DataError(
            f"{source.name} could not be downloaded ({error}); {source.advice(folder)}"
        ) from error


def check(
    name_or_path: str | os.PathLike[str], root: str | os.PathLike[str] | None = None
) -> list[str]:
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


def status(root: str | os.PathLike[str] | None = None) -> list[Status]:
    """What is there and what is not, without reading the files."""
    return [_status(source, _root(root)) for source in SOURCES.values()]


def _status(source: Source, root: Path) -> Status:
    found = source.find(root)
    if found is None:
        size = sum(remote.size for remote in source.remotes)
        how = f"ibnn data get {source.name}" if source.remotes else source.advice(root)
        return Status(source.name, source.about, False, size, "", how)
    size = sum(path.stat().st_size for path in found)
    where = str(found[0].parent if len(found) > 1 else found[0]) if found else "built in"
    return Status(source.name, source.about, True, size, where, "")


def _source(name_or_path: str | os.PathLike[str]) -> Source:
    text = os.fspath(name_or_path)
    if text in SOURCES:
        return SOURCES[text]
    path = Path(text).expanduser()
    if path.suffix == ".npz":
        return NpzSource(path.stem, "a user's own data", str(path.absolute()))
    near = difflib.get_close_matches(text, SOURCES, n=1)
    hint = f", did you mean {near[0]!r}?" if near else f"; known: {', '.join(SOURCES)}"
    raise DataError(f"unknown dataset {text!r}{hint} (or the path of an .npz file)")


def _root(root: str | os.PathLike[str] | None) -> Path:
    return default_root() if root is None else Path(root).expanduser()


def _absent(source: Source, root: Path) -> str:
    return f"{source.name} is not there: {source.advice(root)}"
