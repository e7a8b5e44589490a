"""idx files: right ones are read, wrong ones are refused by name."""

import gzip
from dataclasses import replace

import numpy as np
import pytest

from ibnn.lab.data import DataError
from ibnn.lab.data.formats.idx import IdxSource
from ibnn.lab.data.source import Remote


@pytest.fixture
def source(idx_contents, md5sum):
    packed = idx_contents.packed
    remotes = tuple(
        Remote((f"http://127.0.0.1:9/{name}",), md5sum(data), len(data))
        for name, data in packed.items()
    )
    contents = [md5sum(gzip.decompress(data)) for data in packed.values()]
    return IdxSource("tiny", "", ("Tiny/raw", "tiny"), (remotes, contents))


def put(folder, contents):
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in contents.items():
        (folder / name).write_bytes(data)


def unchecked(source):
    """The same source without known sums, so that only the structure speaks."""
    return replace(source, files=(source.remotes, [None] * 4))


def complaint(source, root):
    with pytest.raises(DataError) as caught:
        source.read(source.find(root))
    return str(caught.value)


@pytest.mark.parametrize("folder", ["Tiny/raw", "tiny"])
@pytest.mark.parametrize("packed", [True, False])
def test_four_files_make_a_dataset(source, idx_contents, tmp_path, folder, packed):
    contents = idx_contents.packed
    if not packed:
        contents = {name[:-3]: gzip.decompress(data) for name, data in contents.items()}
    put(tmp_path / folder, contents)
    ds = source.read(source.find(tmp_path))
    images, labels, test_images, test_labels = idx_contents.arrays.values()
    assert ds.image_shape == (1, 5, 4)
    assert ds.classes == 10
    np.testing.assert_array_equal(ds.x_train[:, 0], images)
    np.testing.assert_array_equal(ds.y_train, labels)
    np.testing.assert_array_equal(ds.x_test[:, 0], test_images)
    np.testing.assert_array_equal(ds.y_test, test_labels)


def test_packing_again_does_not_change_the_contents(source, idx_contents, tmp_path):
    again = {n: gzip.compress(gzip.decompress(d), 1) for n, d in idx_contents.packed.items()}
    assert again != idx_contents.packed
    put(tmp_path / "tiny", again)
    assert len(source.read(source.find(tmp_path)).x_train) == 20


def test_a_missing_file_is_named_with_the_place_it_belongs_to(source, idx_contents, tmp_path):
    put(tmp_path / "tiny", idx_contents.packed)
    (tmp_path / "tiny" / "t10k-labels-idx1-ubyte.gz").unlink()
    assert source.find(tmp_path) is None
    advice = source.advice(tmp_path)
    assert "t10k-labels-idx1-ubyte.gz" in advice
    assert str(tmp_path / "tiny") in advice
    assert "train-images" not in advice


def test_one_wrong_byte_is_refused_with_both_sums(source, idx_contents, tmp_path, md5sum):
    name = "train-images-idx3-ubyte.gz"
    content = bytearray(gzip.decompress(idx_contents.packed[name]))
    good = md5sum(bytes(content))
    content[-1] ^= 1
    put(tmp_path / "tiny", {**idx_contents.packed, name: gzip.compress(bytes(content))})
    message = complaint(source, tmp_path)
    assert name in message
    assert good in message
    assert md5sum(bytes(content)) in message


def test_a_truncated_gzip_file_is_refused(source, idx_contents, tmp_path):
    name = "train-labels-idx1-ubyte.gz"
    put(tmp_path / "tiny", {**idx_contents.packed, name: idx_contents.packed[name][:-9]})
    message = complaint(unchecked(source), tmp_path)
    assert name in message
    assert "truncated gzip" in message


def test_a_damaged_or_foreign_gzip_file_is_refused(source, idx_contents, tmp_path):
    name = "train-labels-idx1-ubyte.gz"
    damaged = bytearray(idx_contents.packed[name])
    damaged[-6] ^= 0xFF  # in the checksum that ends a gzip file
    for data in (bytes(damaged), b"<html>not found</html>"):
        put(tmp_path / "tiny", {**idx_contents.packed, name: data})
        message = complaint(unchecked(source), tmp_path)
        assert name in message
        assert "damaged gzip" in message


def test_a_wrong_magic_number_is_refused(source, idx_contents, tmp_path):
    labels, images = "train-labels-idx1-ubyte.gz", "train-images-idx3-ubyte.gz"
    put(tmp_path / "tiny", {**idx_contents.packed, images: idx_contents.packed[labels]})
    message = complaint(unchecked(source), tmp_path)
    assert images in message
    assert "expected magic number 2051, found 2049" in message


def test_too_few_bytes_for_the_stated_size_are_refused(source, idx_contents, tmp_path):
    name = "t10k-images-idx3-ubyte.gz"
    short = gzip.compress(gzip.decompress(idx_contents.packed[name])[:-3])
    put(tmp_path / "tiny", {**idx_contents.packed, name: short})
    message = complaint(unchecked(source), tmp_path)
    assert name in message
    assert "expected 200 bytes for 10 x 5 x 4, found 197" in message


def test_an_empty_file_is_refused(source, idx_contents, tmp_path):
    name = "t10k-labels-idx1-ubyte.gz"
    put(tmp_path / "tiny", {**idx_contents.packed, name: gzip.compress(b"")})
    assert "header of 8 bytes, found 0" in complaint(unchecked(source), tmp_path)


def test_a_label_out_of_range_is_refused(source, idx_contents, idx_bytes, tmp_path):
    name = "train-labels-idx1-ubyte.gz"
    labels = np.arange(20) % 10
    labels[7] = 10
    put(tmp_path / "tiny", {**idx_contents.packed, name: gzip.compress(idx_bytes(labels))})
    message = complaint(unchecked(source), tmp_path)
    assert name in message
    assert "expected labels 0..9, found 10 at example 7" in message


def test_more_images_than_labels_are_refused(source, idx_contents, idx_bytes, tmp_path):
    name = "train-labels-idx1-ubyte.gz"
    put(tmp_path / "tiny", {**idx_contents.packed, name: gzip.compress(idx_bytes(np.arange(9)))})
    message = complaint(unchecked(source), tmp_path)
    assert "has 20 images" in message
    assert "has 9 labels" in message


def test_every_wrong_file_is_named_at_once(source, idx_contents, tmp_path):
    put(tmp_path / "tiny", {name: data[:-9] for name, data in idx_contents.packed.items()})
    with pytest.raises(DataError) as caught:
        source.read(source.find(tmp_path))
    assert len(caught.value.problems) == 4
