"""A user's own .npz: one rule for its axes and values, and a clear word when it is broken."""

import io
import zipfile

import numpy as np
import pytest
import torch

from ibnn.lab import data


@pytest.fixture
def save(tmp_path):
    """Writes an .npz of 6 training and 4 test examples, some arrays replaced or dropped (None)."""

    def write(x_train, x_test, **others):
        arrays = {
            "x_train": x_train,
            "y_train": np.arange(6) % 3,
            "x_test": x_test,
            "y_test": np.arange(4) % 3,
            **others,
        }
        path = tmp_path / "mine.npz"
        np.savez(path, **{key: value for key, value in arrays.items() if value is not None})
        return path

    return write


def bytes_of(*shape):
    return np.random.RandomState(0).randint(0, 256, shape).astype(np.uint8)


def test_channels_may_stand_first_last_or_nowhere(save):
    x = bytes_of(10, 3, 8, 6)
    first = data.load(save(x[:6], x[6:]))
    last = data.load(str(save(*(part.transpose(0, 2, 3, 1) for part in (x[:6], x[6:])))))
    none = data.load(save(x[:6, 0], x[6:, 0]))
    assert first.image_shape == last.image_shape == (3, 8, 6)
    assert none.image_shape == (1, 8, 6)
    assert torch.equal(first.x_train, last.x_train)
    assert torch.equal(first.x_test, last.x_test)
    assert torch.equal(none.x_test, first.x_test[:, :1])
    assert first.x_train.dtype == torch.uint8
    assert first.y_train.dtype == torch.int64
    assert (first.name, first.classes) == ("mine", 3)
    assert last.x_train.is_contiguous()


def test_floats_between_0_and_1_stay_floats(save):
    x = bytes_of(10, 8, 6) / 255
    ds = data.load(save(x[:6], x[6:]))
    assert ds.x_train.dtype == torch.float32
    np.testing.assert_allclose(ds.x_train[:, 0], x[:6], rtol=1e-7)  # float32 rounding


def test_points_are_floats_of_any_size(save):
    x = np.random.RandomState(0).normal(0, 5, (10, 2))
    ds = data.load(save(x[:6], x[6:]))
    assert ds.image_shape == (2,)
    assert ds.x_train.dtype == torch.float32


def test_the_file_may_settle_layout_and_classes(save):
    x = bytes_of(10, 3, 8, 4)
    assert data.load(save(x[:6], x[6:], layout="NCHW")).image_shape == (3, 8, 4)
    assert data.load(save(x[:6], x[6:], layout="NHWC")).image_shape == (4, 3, 8)
    assert data.load(save(x[:6], x[6:], layout="NCHW", classes=7)).classes == 7


GOOD = bytes_of(10, 8, 6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x_train": bytes_of(6, 3, 8, 4)}, "both of axes 1 and 3 could be the channels"),
        ({"x_train": bytes_of(6, 8, 3, 8)}, "neither of axes 1 and 3 could be the channels"),
        ({"x_train": bytes_of(6, 3, 8, 4), "layout": "HWCN"}, "found 'HWCN'"),
        ({"x_train": bytes_of(6, 3, 8, 8, 2)}, r"found \(6, 3, 8, 8, 2\)"),
        ({"x_train": bytes_of(6, 48)}, r"images reshaped to \(N, H, W\)"),
        ({"x_train": GOOD[:6].astype(np.int64)}, "x_train is int64, expected uint8 or floats"),
        ({"x_train": GOOD[:6] * 1.0, "x_test": GOOD[6:] * 1.0}, "floats from .* expected 0 to 1"),
        ({"x_test": np.full((4, 8, 6), np.nan)}, "x_test has values that are not finite"),
        ({"x_test": GOOD[6:, :7]}, "expected the same but for N"),
        ({"x_test": GOOD[6:] / 255}, "expected the same but for N"),
        ({"x_test": GOOD[:0]}, "none of them empty"),
        ({"x_test": bytes_of(4, 1, 8, 6)}, "expected x_test with 3 axes"),
        ({"x_test": None}, "no x_test, found x_train, y_train, y_test"),
        ({"y_train": np.arange(5) % 3}, "x_train has 6 images but y_train has 5 labels"),
        ({"y_train": np.eye(6)}, r"expected y_train to be integers of shape \(N,\)"),
        ({"y_train": np.zeros(6, int)}, "at least two classes"),
        ({"y_train": np.arange(6) - 1}, r"expected labels 0\.\.4, found -1 at example 0"),
        ({"y_test": np.arange(4)}, r"y_test: expected labels 0\.\.2, found 3 at example 3"),
        ({"classes": 2}, r"y_train: expected labels 0\.\.1, found 2"),
        ({"classes": 2**40}, "1099511627776 classes, expected at most 65536"),
        ({"y_train": np.arange(6) << 40}, "classes, expected at most 65536"),
        ({"classes": [1, 2]}, "expected classes to be one integer"),
        ({"x_train": np.array([None] * 6)}, "x_train holds Python objects"),
    ],
)
def test_what_breaks_the_rule_is_refused(save, changes, message):
    path = save(**{"x_train": GOOD[:6], "x_test": GOOD[6:], **changes})
    with pytest.raises(data.DataError, match=message) as caught:
        data.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_truncated_and_foreign_files_are_refused(save, tmp_path):
    path = save(GOOD[:6], GOOD[6:])
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[300] ^= 0xFF
    for contents in (whole[:-30], whole[:50], bytes(damaged), b"", b"hello"):
        path.write_bytes(contents)
        with pytest.raises(data.DataError, match=r"mine\.npz: "):
            data.load(path)
    np.save(tmp_path / "array.npy", GOOD)
    (tmp_path / "array.npy").rename(path)
    with pytest.raises(data.DataError, match=r"mine\.npz: "):
        data.load(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(data.DataError, match=rf"put gone\.npz into {tmp_path}"):
        data.load(tmp_path / "gone.npz")


def test_members_nobody_asked_for_are_not_unpacked(save):
    """An array of 8 GB takes 8 MB packed: read with the rest it would fill the memory."""
    path = save(GOOD[:6], GOOD[6:])
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("notes.npy", np.lib.format.magic(1, 0) + b"broken off")
    assert len(data.load(path).x_train) == 6


def test_a_header_that_promises_more_than_there_is_is_refused_before_it_is_allocated(save):
    path = save(GOOD[:6], None)
    header = {"descr": "|u1", "fortran_order": False, "shape": (1 << 40, 8, 8)}
    promise = io.BytesIO()
    np.lib.format.write_array_header_1_0(promise, header)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("x_test.npy", promise.getvalue() + bytes(64))
    with pytest.raises(data.DataError, match=r"x_test promises 70368744177664 bytes .* holds 64"):
        data.load(path)


def test_more_bytes_than_the_packing_can_give_are_refused(save):
    """The directory of the archive is a claim like any other: here it was edited."""
    path = save(GOOD[:6], None)
    header = {"descr": "|u1", "fortran_order": False, "shape": (1 << 22, 8, 8)}
    promise = io.BytesIO()
    np.lib.format.write_array_header_1_0(promise, header)
    size = len(promise.getvalue()) + (1 << 28)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x_test.npy", promise.getvalue() + bytes(64))
    packed = bytearray(path.read_bytes())
    at = packed.rindex(b"PK\x01\x02")  # the last entry of the directory
    packed[at + 24 : at + 28] = size.to_bytes(4, "little")
    path.write_bytes(packed)
    with pytest.raises(data.DataError, match=f"x_test cannot hold {size} bytes"):
        data.load(path)


@pytest.mark.parametrize(
    ("flag", "method", "message"),
    [(0x1, 0, "x_train is encrypted"), (0x0, 93, "x_train is packed by method 93")],
)
def test_what_cannot_be_unpacked_is_one_clear_line(save, flag, method, message):
    path = save(GOOD[:6], GOOD[6:])
    packed = bytearray(path.read_bytes())
    at = packed.index(b"PK\x01\x02")
    packed[at + 8] |= flag
    packed[at + 10] = method
    path.write_bytes(packed)
    with pytest.raises(data.DataError, match=message) as caught:
        data.load(path)
    assert "\n" not in str(caught.value)
