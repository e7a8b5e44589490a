"""SVHN's MATLAB files."""

import numpy as np
import pytest
from scipy.io import savemat

from ibnn.lab.data import DataError
from ibnn.lab.data.formats.mat import SvhnSource, read_mat
from ibnn.lab.data.source import Remote


def images(count):
    return np.random.RandomState(count).randint(0, 256, (32, 32, 3, count)).astype(np.uint8)


def labels(*values):
    return np.array(values, np.uint8)[:, None]


@pytest.mark.parametrize("folder", ["svhn", "SVHN", ""])
def test_two_files_make_a_dataset_and_ten_means_zero(tmp_path, md5sum, folder):
    (tmp_path / folder).mkdir(exist_ok=True)
    remotes = []
    for name, y in (("train_32x32.mat", labels(1, 10, 9)), ("test_32x32.mat", labels(10, 2))):
        path = tmp_path / folder / name
        savemat(path, {"X": images(len(y)), "y": y}, do_compression=True)
        data = path.read_bytes()
        remotes.append(Remote((f"http://127.0.0.1:9/{name}",), md5sum(data), len(data)))
    source = SvhnSource("tiny", "", ("svhn", "SVHN", ""), *remotes)
    found = source.find(tmp_path)
    assert found is not None
    ds = source.read(found)
    assert ds.y_train.tolist() == [1, 0, 9]
    assert ds.y_test.tolist() == [0, 2]
    assert ds.image_shape == (3, 32, 32)
    row, column, channel, image = 5, 7, 2, 1
    assert ds.x_train[image, channel, row, column] == images(3)[row, column, channel, image]


def test_a_wrong_sum_is_refused_before_reading(tmp_path):
    path = tmp_path / "train_32x32.mat"
    path.write_bytes(b"anything")
    with pytest.raises(DataError, match=r"train_32x32\.mat: expected md5 0123, found [0-9a-f]{32}"):
        read_mat(path, "0123")


def test_a_truncated_file_is_refused(tmp_path):
    path = tmp_path / "train_32x32.mat"
    savemat(path, {"X": images(3), "y": labels(1, 2, 3)}, do_compression=True)
    whole = path.read_bytes()
    for length in (0, 100, 2000, len(whole) - 5):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"train_32x32\.mat: "):
            read_mat(path)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ({"X": images(2)}, "found no y"),
        ({"X": images(2), "y": labels(1, 11)}, r"expected labels 1\.\.10, found 11 at example 1"),
        ({"X": images(2), "y": labels(0, 1)}, r"expected labels 1\.\.10, found 0 at example 0"),
        ({"X": images(2), "y": labels(1, 2, 3)}, "has 2 images but y has 3 labels"),
        ({"X": images(2).astype(float), "y": labels(1, 2)}, "found float64"),
        ({"X": images(2)[:28], "y": labels(1, 2)}, r"found uint8 of shape \(28, 32, 3, 2\)"),
        ({"X": images(2), "y": labels(1, 2) / 2}, "expected y to hold integers"),
    ],
)
def test_unsuitable_contents_are_refused(tmp_path, contents, message):
    path = tmp_path / "test_32x32.mat"
    savemat(path, contents)
    with pytest.raises(DataError, match=message) as caught:
        read_mat(path)
    assert str(path) in str(caught.value)
