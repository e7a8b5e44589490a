"""A dataset in memory, and the seeded ways to take less of it or to spoil its labels."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def random_state(purpose: str, seed: int) -> np.random.RandomState:
    """A stream of its own for each purpose, so that one seed does not correlate two uses.

    RandomState, because numpy promises that its numbers never change.
    """
    digest = hashlib.sha256(f"{purpose} {seed}".encode()).digest()
    return np.random.RandomState(np.frombuffer(digest, np.dtype("<u4")))


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test examples, whole, with labels 0 .. classes - 1.

    Images are uint8 (N, C, H, W), or float32 in [0, 1] if a user's file held floats; points are
    float32 (N, 2). Text is int64 (N, T), pieces of T characters by their numbers, and its labels
    are (N, T) too: the character that follows each. `image_shape` is the shape of one example:
    (C, H, W), (2,) for points, (T,) for text.
    """

    name: str
    x_train: Tensor
    y_train: Tensor
    x_test: Tensor
    y_test: Tensor
    classes: int
    image_shape: tuple[int, ...]

    def __post_init__(self) -> None:
        for split, x, y in (
            ("train", self.x_train, self.y_train),
            ("test", self.x_test, self.y_test),
        ):
            if x.dtype not in (torch.uint8, torch.float32, torch.int64):
                raise TypeError(f"x_{split} is {x.dtype}, expected uint8, float32 or int64 (text)")
            if y.dtype != torch.int64:
                raise TypeError(f"y_{split} is {y.dtype}, expected int64")
            if tuple(x.shape[1:]) != self.image_shape:
                raise ValueError(
                    f"x_{split} has shape {tuple(x.shape)}, expected (N, *{self.image_shape})"
                )
            expected = x.shape if x.dtype == torch.int64 else x.shape[:1]
            if y.shape != expected:
                raise ValueError(
                    f"y_{split} has shape {tuple(y.shape)}, expected {tuple(expected)} as x_{split}"
                )

    @classmethod
    def of_arrays(cls, name: str, *arrays: NDArray, classes: int) -> Dataset:
        """From images (N, C, H, W), or points, and their labels: training, then test."""
        x_train, y_train, x_test, y_test = (
            torch.from_numpy(np.ascontiguousarray(array if image else array.astype(np.int64)))
            for array, image in zip(arrays, (True, False, True, False), strict=True)
        )
        shape = tuple(x_train.shape[1:])
        return cls(name, x_train, y_train, x_test, y_test, classes, shape)

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}, {len(self.x_train)} training and {len(self.x_test)} test "
            f"examples of shape {self.image_shape}, {self.classes} classes)"
        )

    @property
    def is_text(self) -> bool:
        """Whether the examples are pieces of text, with the following characters as labels."""
        return self.x_train.dtype == torch.int64

    def to(self, device: torch.device | str) -> Dataset:
        """All examples and labels on that device."""
        names = ("x_train", "y_train", "x_test", "y_test")
        return replace(self, **{name: getattr(self, name).to(device) for name in names})

    def subset(self, fraction: float, seed: int) -> Dataset:
        """The given fraction of every class of the training data, at least one example of each.

        For one seed smaller fractions lie inside larger ones.
        """
        _check_fraction(fraction)
        keep, _ = self._cut(fraction, "subset", seed)
        return self._training(keep)

    def hold_out(self, fraction: float, seed: int) -> tuple[Dataset, Dataset]:
        """Splits the training data into (rest, held), each class by the same fraction.

        For picking hyper-parameters: both results carry the held-out examples as their `x_test`,
        so training on `rest` and validating as usual never touches the real test split.
        """
        _check_fraction(fraction, one=False)
        held, rest = self._cut(fraction, "hold out", seed)
        if not rest.size:
            raise ValueError(
                f"fraction={fraction} holds out all {len(self.y_train)} training examples"
            )
        held_out = self._training(held)
        tested = {"x_test": held_out.x_train, "y_test": held_out.y_train}
        return replace(self._training(rest), **tested), replace(held_out, **tested)

    def with_label_noise(self, fraction: float, seed: int) -> Dataset:
        """Exactly round(fraction * N) training labels replaced by a wrong one, uniformly drawn.

        For one seed the labels wrong at a smaller fraction are wrong, in the same way, at a larger.
        """
        _check_fraction(fraction, zero=True)
        if self.is_text:
            raise ValueError(f"{self.name} is text: its labels are its own characters, none wrong")
        if self.classes < 2:
            raise ValueError(f"classes={self.classes}: no wrong label to replace a right one by")
        count = len(self.y_train)
        random = random_state("label noise", seed)
        chosen = torch.from_numpy(random.permutation(count)[: _round(fraction * count)])
        shift = torch.from_numpy(random.randint(1, self.classes, size=count))
        y = self.y_train.clone()
        y[chosen] = (y[chosen] + shift[chosen]) % self.classes
        return replace(self, y_train=y)

    def first(self, n_train: int, n_test: int) -> Dataset:
        """The first examples of each split (all of them where there are fewer)."""
        for name, value in (("n_train", n_train), ("n_test", n_test)):
            if value < 1:
                raise ValueError(f"{name}={value}, expected at least 1")
        return replace(
            self,
            x_train=self.x_train[:n_train],
            y_train=self.y_train[:n_train],
            x_test=self.x_test[:n_test],
            y_test=self.y_test[:n_test],
        )

    def cut_anew(self, length: int) -> Dataset:
        """The same text in pieces of another length; what is left over at the end is dropped."""
        shortest = min(self.y_train.numel(), self.y_test.numel())
        if not self.is_text or not 1 <= length <= shortest:
            raise ValueError(
                f"length={length}, expected pieces of a text of at least 1 and at most "
                f"{shortest} characters"
            )
        parts = {}
        for name in ("x_train", "y_train", "x_test", "y_test"):
            characters = getattr(self, name).flatten()
            count = len(characters) // length
            parts[name] = characters[: count * length].view(count, length)
        return replace(self, **parts, image_shape=(length,))

    def _cut(self, fraction: float, purpose: str, seed: int) -> tuple[NDArray, NDArray]:
        """Indices in and out of a stratified fraction, both in the original order."""
        random = random_state(purpose, seed)
        # pieces of text are of no class: all are drawn alike
        labels = np.zeros(len(self.y_train)) if self.is_text else self.y_train.numpy()
        inside = np.zeros(len(labels), dtype=bool)
        for label in range(self.classes):
            members = random.permutation(np.flatnonzero(labels == label))
            if members.size:
                inside[members[: max(1, _round(fraction * members.size))]] = True
        return np.flatnonzero(inside), np.flatnonzero(~inside)

    def _training(self, indices: NDArray) -> Dataset:
        index = torch.from_numpy(indices)
        return replace(self, x_train=self.x_train[index], y_train=self.y_train[index])


def _round(value: float) -> int:
    """To the nearest integer, halves upwards (Python's round takes them to the even one)."""
    return math.floor(value + 0.5)


def _check_fraction(fraction: float, *, zero: bool = False, one: bool = True) -> None:
    if not (
        (fraction > 0.0 or (zero and fraction == 0.0))
        and (fraction < 1.0 or (one and fraction == 1.0))
    ):
        interval = f"{'[' if zero else '('}0, 1{']' if one else ')'}"
        raise ValueError(f"fraction={fraction}, expected a number in {interval}")
