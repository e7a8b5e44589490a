"""The door: names, roots, what is there, what is wrong, and what to do about it."""

import gzip
import hashlib
import io
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.io import savemat

from ibnn.lab import data
from ibnn.lab.data import catalogue
from ibnn.lab.data.source import Remote


@pytest.fixture
def online(server, idx_contents, md5sum, monkeypatch):
    """Fashion-MNIST replaced by a tiny one that the local server publishes."""
    server.contents.update(idx_contents.packed)
    remotes = tuple(
        Remote((server.url(name),), md5sum(packed), len(packed))
        for name, packed in idx_contents.packed.items()
    )
    contents = [md5sum(gzip.decompress(packed)) for packed in idx_contents.packed.values()]
    tiny = replace(catalogue.SOURCES["fashion-mnist"], files=(remotes, contents))
    monkeypatch.setitem(catalogue.SOURCES, "fashion-mnist", tiny)
    return server


def test_the_names():
    assert data.names() == [
        "fashion-mnist",
        "mnist",
        "cifar10",
        "svhn",
        "svhn-resplit",
        "digits",
        "arrows",
        "moons",
        "circles",
        "spirals",
        "kjv",
        "sums",
    ]


def test_what_is_missing_is_downloaded_once(online, idx_contents, tmp_path):
    ds = data.load("fashion-mnist", tmp_path)
    np.testing.assert_array_equal(
        ds.x_train[:, 0], idx_contents.arrays["train-images-idx3-ubyte.gz"]
    )
    assert len(online.ranges) == 4
    data.load("fashion-mnist", tmp_path)
    data.get("fashion-mnist", tmp_path)
    assert len(online.ranges) == 4
    assert data.check("fashion-mnist", tmp_path) == []


def test_several_at_once_download_once(online, tmp_path):
    sizes = []

    def load():
        sizes.append(len(data.load("fashion-mnist", tmp_path).x_train))

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sizes == [20] * 4
    assert online.ranges == [None] * 4


def test_a_root_that_cannot_be_made_is_named(online, tmp_path):
    (tmp_path / "taken").write_text("a file, not a folder")
    with pytest.raises(data.DataError, match=r"cannot write into .*taken"):
        data.load("fashion-mnist", tmp_path / "taken")


def test_only_the_missing_file_is_downloaded(online, tmp_path):
    data.get("fashion-mnist", tmp_path)
    online.ranges.clear()
    (tmp_path / "FashionMNIST/raw/t10k-labels-idx1-ubyte.gz").unlink()
    data.load("fashion-mnist", tmp_path)
    assert len(online.ranges) == 1


def test_without_download_one_line_says_what_to_put_where(tmp_path):
    for name in ("fashion-mnist", "mnist", "cifar10", "svhn", "svhn-resplit"):
        with pytest.raises(data.DataError) as caught:
            data.load(name, tmp_path, download=False)
        message = str(caught.value)
        assert message.startswith(f"{name} is not there: put ")
        assert str(tmp_path) in message
        assert "\n" not in message
        assert data.check(name, tmp_path) == [message]


def test_a_failed_download_says_why_and_what_to_put_where(online, tmp_path):
    online.contents.clear()
    with pytest.raises(data.DataError) as caught:
        data.load("fashion-mnist", tmp_path)
    message = str(caught.value)
    assert "HTTP 404" in message
    assert "put train-images-idx3-ubyte.gz" in message
    assert str(tmp_path / "FashionMNIST/raw") in message
    assert message.endswith("or do without: the dataset digits")
    assert "\n" not in message
    assert len(message) - len(str(tmp_path)) < 280


def test_a_damaged_file_is_refused_not_replaced(online, tmp_path):
    data.get("fashion-mnist", tmp_path)
    path = tmp_path / "FashionMNIST/raw/train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-9])
    online.ranges.clear()
    with pytest.raises(data.DataError, match=r"truncated gzip.*ibnn data get fashion-mnist"):
        data.load("fashion-mnist", tmp_path)
    assert online.ranges == []
    assert len(data.check("fashion-mnist", tmp_path)) == 1
    assert str(path) in data.check("fashion-mnist", tmp_path)[0]


def test_the_resplit_is_cut_from_the_test_split_of_svhn(server, tmp_path, md5sum, monkeypatch):
    pixels = np.random.RandomState(0).randint(0, 256, (32, 32, 3, 12)).astype(np.uint8)
    packed = io.BytesIO()
    savemat(packed, {"X": pixels, "y": np.arange(12, dtype=np.uint8)[:, None] % 10 + 1})
    server.contents["test_32x32.mat"] = packed.getvalue()
    whole = Remote(
        (server.url("test_32x32.mat"),), md5sum(packed.getvalue()), len(packed.getvalue())
    )
    x = pixels.transpose(3, 0, 1, 2)
    y = (np.arange(12) % 10 + 1) % 10
    planes = x.transpose(0, 3, 1, 2)
    bits = [planes[:6], y[:6], planes[6:9], y[6:9]]
    sum_of_it = hashlib.sha256(b"".join(part.tobytes() for part in bits)).hexdigest()
    known = catalogue.SOURCES["svhn-resplit"]
    tiny = replace(known, whole=whole, n_train=6, n_test=3, sha256=sum_of_it)
    monkeypatch.setitem(catalogue.SOURCES, "svhn-resplit", tiny)
    (line,) = [line for line in data.status(tmp_path) if line.name == "svhn-resplit"]
    assert "of SVHN's test split, not the split of the paper" in line.about
    assert data.get("svhn-resplit", tmp_path)
    cut = data.load("svhn-resplit", tmp_path)
    assert cut.y_train.tolist() == [1, 2, 3, 4, 5, 6]
    assert cut.y_test.tolist() == [7, 8, 9]
    np.testing.assert_array_equal(cut.x_test, planes[6:9])
    # a file that has them already is used as it is, if it is what it says
    parts = {"x_train": x[:6], "y_train": y[:6], "x_test": x[6:9], "y_test": y[6:9], "classes": 10}
    np.savez(tmp_path / "svhn_resplit.npz", **parts)
    (tmp_path / "svhn" / "test_32x32.mat").unlink()
    assert torch.equal(data.load("svhn-resplit", tmp_path).x_train, cut.x_train)
    np.savez(tmp_path / "svhn_resplit.npz", **{**parts, "y_test": y[:3]})
    with pytest.raises(data.DataError, match=r"svhn_resplit\.npz: its images .*expected [0-9a-f]+"):
        data.load("svhn-resplit", tmp_path)


def test_the_root_is_the_argument_else_the_environment_else_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("IBNN_DATA", str(tmp_path))
    assert data.default_root() == tmp_path
    with pytest.raises(data.DataError, match=str(tmp_path)):
        data.load("mnist", download=False)
    monkeypatch.delenv("IBNN_DATA")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert data.default_root() == tmp_path / "home" / ".cache" / "ibnn" / "data"


def test_the_status_tells_what_is_there(online, tmp_path, idx_contents):
    before = {line.name: line for line in data.status(tmp_path)}
    assert list(before) == data.names()
    assert not before["fashion-mnist"].present
    assert not before["cifar10"].present
    assert before["cifar10"].how == "ibnn data get cifar10"
    assert before["cifar10"].size > 10**8
    assert before["digits"].present
    assert before["arrows"].present
    data.get("fashion-mnist", tmp_path)
    after = {line.name: line for line in data.status(tmp_path)}["fashion-mnist"]
    assert after.present
    assert after.where == str(tmp_path / "FashionMNIST/raw")
    assert after.size == sum(map(len, idx_contents.packed.values()))


def test_an_unknown_name_gets_the_nearest_one():
    with pytest.raises(data.DataError, match="did you mean 'fashion-mnist'"):
        data.load("fashon-mnist")
    with pytest.raises(data.DataError, match="expected one of fashion-mnist, mnist"):
        data.load("zzz")


def test_digits_need_no_file_and_are_split_evenly(tmp_path):
    ds, again = data.load("digits", tmp_path), data.load("digits", tmp_path)
    assert torch.equal(ds.x_train, again.x_train)
    assert (len(ds.x_train), len(ds.x_test), ds.image_shape) == (1438, 359, (1, 8, 8))
    assert ds.x_train.dtype == torch.uint8
    assert ds.x_train.max() == 255
    shares = ds.y_test.bincount() / torch.cat([ds.y_train, ds.y_test]).bincount()
    assert (shares - 0.2).abs().max() < 0.5 / 174  # rounding, of 174 digits or more per class
    assert data.check("digits", tmp_path) == []
