"""CIFAR-10: binary or python version, folder or archive, all give the same dataset."""

import io
import os
import pickle
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ibnn.lab.data import DataError
from ibnn.lab.data.formats.cifar import CifarSource
from ibnn.lab.data.source import Remote

ARCHIVE = "cifar-10-binary.tar.gz"


def pickled(value):
    """A pickle with str and bytes as Python 2 wrote them, like the published batches."""
    stream = io.BytesIO()
    pickler: Any = pickle._Pickler(stream, protocol=2)

    def save_string(pickler, value):
        data = value.encode("latin1") if isinstance(value, str) else value
        pickler.write(pickle.BINSTRING + struct.pack("<i", len(data)) + data)
        pickler.memoize(value)

    pickler.dispatch = {**pickler.dispatch, str: save_string, bytes: save_string}
    pickler.dump(value)
    return stream.getvalue()


@pytest.fixture
def cifar_python(cifar_records):
    return {
        name: pickled({"data": images.reshape(4, -1), "labels": labels.tolist()})
        for name, (labels, images) in cifar_records.items()
    }


@pytest.fixture
def source(cifar_binary, cifar_python, md5sum):
    return CifarSource(
        "tiny",
        "",
        Remote((f"http://127.0.0.1:9/{ARCHIVE}",), "", 0),
        {name: md5sum(data) for name, data in cifar_binary.items()},
        {name: md5sum(data) for name, data in cifar_python.items()},
    )


def put(folder, contents):
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in contents.items():
        (folder / name).write_bytes(data)


def assert_right(ds, records):
    labels, images = zip(*records.values(), strict=True)
    assert ds.image_shape == (3, 32, 32)
    assert ds.classes == 10
    np.testing.assert_array_equal(ds.x_train, np.concatenate(images[:5]))
    np.testing.assert_array_equal(ds.y_train, np.concatenate(labels[:5]))
    np.testing.assert_array_equal(ds.x_test, images[5])
    np.testing.assert_array_equal(ds.y_test, labels[5])


@pytest.mark.parametrize("place", ["", "cifar10"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("version", ["bin", "py"])
def test_both_versions_packed_or_not(
    source, cifar_binary, cifar_python, cifar_records, tar_gz, tmp_path, version, packed, place
):
    contents = cifar_binary if version == "bin" else cifar_python
    folder = f"cifar-10-batches-{version}"
    if packed:
        inside = {f"{folder}/{name}": data for name, data in contents.items()}
        archive = ARCHIVE if version == "bin" else "cifar-10-python.tar.gz"
        put(tmp_path / place, {archive: tar_gz({f"{folder}/readme.html": b"", **inside})})
    else:
        put(tmp_path / place / folder, contents)
    assert_right(source.read(source.find(tmp_path)), cifar_records)


def test_a_wrong_byte_is_refused_by_name(source, cifar_binary, tmp_path):
    name = "data_batch_3.bin"
    wrong = cifar_binary[name][:-1] + bytes([cifar_binary[name][-1] ^ 1])
    put(tmp_path / "cifar-10-batches-bin", {**cifar_binary, name: wrong})
    with pytest.raises(DataError, match=rf"{name}: expected md5 {source.binary[name]}, found"):
        source.read(source.find(tmp_path))


def test_a_truncated_batch_is_refused_by_name(source, cifar_binary, tmp_path):
    name = "test_batch.bin"
    put(tmp_path / "cifar-10-batches-bin", {**cifar_binary, name: cifar_binary[name][:-1]})
    with pytest.raises(DataError, match=rf"{name}: expected a multiple of 3073 bytes, found 12291"):
        source.read(source.find(tmp_path))


def test_a_label_out_of_range_is_refused(source, cifar_binary, tmp_path):
    name = "data_batch_1.bin"
    wrong = b"\x0a" + cifar_binary[name][1:]
    put(tmp_path / "cifar-10-batches-bin", {**cifar_binary, name: wrong})
    lenient = replace(source, binary=dict.fromkeys(source.binary))
    with pytest.raises(DataError, match=rf"{name}: expected labels 0\.\.9, found 10 at example 0"):
        lenient.read(lenient.find(tmp_path))


def test_a_truncated_archive_is_refused_by_name(source, cifar_binary, tar_gz, tmp_path):
    inside = {f"cifar-10-batches-bin/{name}": data for name, data in cifar_binary.items()}
    put(tmp_path, {ARCHIVE: tar_gz(inside)[:-5000]})
    with pytest.raises(DataError, match=rf"{ARCHIVE}: truncated or damaged archive"):
        source.read(source.find(tmp_path))


def test_an_archive_that_lacks_a_batch_is_refused(source, cifar_binary, tar_gz, tmp_path):
    inside = {f"cifar-10-batches-bin/{name}": data for name, data in cifar_binary.items()}
    del inside["cifar-10-batches-bin/data_batch_2.bin"]
    put(tmp_path, {ARCHIVE: tar_gz(inside)})
    with pytest.raises(DataError, match=r"no cifar-10-batches-bin/data_batch_2\.bin found"):
        source.read(source.find(tmp_path))


class Evil:
    def __init__(self, action, *arguments):
        self.call = action, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_pickle_cannot_call_what_it_likes(source, cifar_python, tmp_path, protocol):
    witness = tmp_path / "witness"
    evil = pickle.dumps({"data": Evil(os.mkdir, str(witness)), "labels": []}, protocol)
    put(tmp_path / "cifar-10-batches-py", {**cifar_python, "data_batch_1": evil})
    with pytest.raises(DataError, match=r"data_batch_1: expected md5"):
        source.read(source.find(tmp_path))
    lenient = replace(source, python=dict.fromkeys(source.python))
    with pytest.raises(DataError, match=r"data_batch_1: the pickle asks for (posix|nt)\.mkdir"):
        lenient.read(lenient.find(tmp_path))
    assert not witness.exists()


@pytest.mark.parametrize(
    "value",
    [
        [1, 2],
        {"labels": [1]},
        {"data": np.zeros((1, 3072), np.int64), "labels": [1]},
        {"data": np.zeros((1, 3071), np.uint8), "labels": [1]},
        {"data": np.zeros((1, 3072), np.uint8), "labels": [1, 2]},
        {"data": np.zeros((1, 3072), np.uint8), "labels": ["1"]},
        {"data": np.zeros((1, 3072), np.float32), "labels": [1]},
    ],
)
def test_a_pickle_of_something_else_is_refused(source, cifar_python, tmp_path, value):
    put(tmp_path / "cifar-10-batches-py", {**cifar_python, "test_batch": pickled(value)})
    lenient = replace(source, python=dict.fromkeys(source.python))
    with pytest.raises(DataError, match="test_batch: "):
        lenient.read(lenient.find(tmp_path))


def test_a_truncated_pickle_is_refused(source, cifar_python, tmp_path):
    short = cifar_python["test_batch"][:-40]
    put(tmp_path / "cifar-10-batches-py", {**cifar_python, "test_batch": short})
    lenient = replace(source, python=dict.fromkeys(source.python))
    with pytest.raises(DataError, match="test_batch: truncated or damaged pickle"):
        lenient.read(lenient.find(tmp_path))


def test_the_download_is_unpacked_and_its_archive_removed(
    source, cifar_binary, cifar_records, tar_gz, md5sum, tmp_path, server
):
    archive = tar_gz({f"cifar-10-batches-bin/{n}": data for n, data in cifar_binary.items()})
    server.contents[ARCHIVE] = archive
    remote = Remote((server.url(ARCHIVE),), md5sum(archive), len(archive))
    online = replace(source, archive=remote)
    online.download(tmp_path)
    assert sorted(os.listdir(tmp_path / "cifar-10-batches-bin")) == sorted(cifar_binary)
    assert not (tmp_path / ARCHIVE).exists()
    assert_right(online.read(online.find(tmp_path)), cifar_records)
