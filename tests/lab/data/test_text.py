"""A plain text file as a dataset of characters."""

from pathlib import Path

import pytest
import torch

from ibnn.lab import data
from ibnn.lab.data import DataError


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_every_label_is_the_next_character(tmp_path):
    text = "".join(chr(ord("a") + (i * i) % 17) for i in range(2000)) + "é" * 5
    dataset = data.load(written(tmp_path / "own.txt", text))
    alphabet = sorted(set(text))
    numbers = torch.tensor([alphabet.index(c) for c in text])
    n_test = 200
    for x, y, part in (
        (dataset.x_train, dataset.y_train, numbers[:-n_test]),
        (dataset.x_test, dataset.y_test, numbers[-n_test:]),
    ):
        count = x.numel()
        assert torch.equal(x.flatten(), part[:count])
        assert torch.equal(y.flatten(), part[1 : count + 1])
        assert len(part) - count <= 64
    assert dataset.classes == len(alphabet)
    assert dataset.is_text


def test_pieces_of_another_length_hold_the_same_text():
    dataset = data.load("sums")
    shorter = dataset.cut_anew(24)
    assert shorter.image_shape == (24,)
    kept = shorter.x_train.numel()
    assert torch.equal(shorter.x_train.flatten(), dataset.x_train.flatten()[:kept])
    assert dataset.x_train.numel() - kept < 24
    with pytest.raises(ValueError, match="length=0"):
        dataset.cut_anew(0)


def test_a_fraction_of_a_text_is_a_fraction_of_its_pieces():
    dataset = data.load("sums")
    half = dataset.subset(0.5, seed=0)
    assert len(half.x_train) == round(len(dataset.x_train) / 2)
    rest, held = dataset.hold_out(0.25, seed=0)
    assert len(rest.x_train) + len(held.x_train) == len(dataset.x_train)


def test_labels_of_a_text_cannot_be_wrong():
    with pytest.raises(ValueError, match="sums is text"):
        data.load("sums").with_label_noise(0.5, seed=0)


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        (b"caf\xe9 " * 400, "expected UTF-8 text, found byte 0xe9 at 3"),
        (b"", "0 different characters, expected 2 to 4096"),
        (b"aaaa" * 400, "1 different characters, expected 2 to 4096"),
        (b"ab" * 300, "600 characters, expected at least 650"),
    ],
)
def test_what_is_no_text_is_told_in_one_line(tmp_path, contents, expected):
    path = tmp_path / "own.txt"
    path.write_bytes(contents)
    with pytest.raises(DataError, match=expected) as caught:
        data.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_byte_order_mark_and_windows_line_ends_are_no_characters(tmp_path):
    plain = "one two\nthree four\n" * 60
    path = tmp_path / "own.txt"
    path.write_bytes(b"\xef\xbb\xbf" + plain.replace("\n", "\r\n").encode())
    found, expected = data.load(path), data.load(written(tmp_path / "plain.txt", plain))
    assert torch.equal(found.x_train, expected.x_train)
    assert found.classes == expected.classes


def test_the_kjv_is_absent_with_advice(tmp_path):
    with pytest.raises(DataError, match=r"kjv is not there: put kjv.txt into"):
        data.load("kjv", tmp_path)
