"""A plain text file as a dataset of characters: from each piece, every following character."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ibnn.lab.data import verify
from ibnn.lab.data.dataset import Dataset
from ibnn.lab.data.errors import DataError
from ibnn.lab.data.source import FileSource

LENGTH = 64  # of a piece, until a run cuts anew (`context`)
TEST_FRACTION = 0.1  # the end of the text
_MOST_CHARACTERS = 4096  # a network has an output for each: more is no alphabet


@dataclass(frozen=True)
class TextSource(FileSource):
    """One UTF-8 file."""

    def read(self, files: Sequence[Path]) -> Dataset:
        return characters(decoded(files[0]), self.name, str(files[0]))

    def image_shape(self, files: Sequence[Path]) -> tuple[int, ...]:
        return (LENGTH,)


def decoded(path: Path) -> str:
    """The text of a file, or one line that says where it is not UTF-8."""
    raw = verify.read(path)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: expected UTF-8 text, found byte {raw[error.start]:#04x} at {error.start}"
        ) from None


def characters(text: str, name: str, where: str) -> Dataset:
    """A text cut into pieces of 64 characters; the last tenth of it is the test split.

    Characters are numbered in the order of their code points. The label of a character is the one
    that follows it, also across the end of a piece.

    >>> dataset = characters("abc" * 500, "abc", "abc.txt")
    >>> dataset.x_train[0, :4].tolist(), dataset.y_train[0, :4].tolist()
    ([0, 1, 2, 0], [1, 2, 0, 1])
    """
    text = text.replace("\r\n", "\n")
    alphabet, numbers = np.unique(
        np.frombuffer(text.encode("utf-32-le"), dtype="<u4"), return_inverse=True
    )
    if not 2 <= len(alphabet) <= _MOST_CHARACTERS:
        raise DataError(
            f"{where}: {len(alphabet)} different characters, expected 2 to {_MOST_CHARACTERS}"
        )
    whole = torch.from_numpy(numbers.astype(np.int64))
    n_test = int(TEST_FRACTION * len(whole))
    if n_test <= LENGTH:
        raise DataError(
            f"{where}: {len(whole)} characters, expected at least {10 * (LENGTH + 1)}: a tenth of "
            f"it must hold a piece of {LENGTH}"
        )
    (x_train, y_train), (x_test, y_test) = _pieces(whole[:-n_test]), _pieces(whole[-n_test:])
    return Dataset(name, x_train, y_train, x_test, y_test, len(alphabet), (LENGTH,))


def _pieces(numbers: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    count = (len(numbers) - 1) // LENGTH
    starts, following = numbers[: count * LENGTH], numbers[1 : count * LENGTH + 1]
    return starts.view(count, LENGTH), following.view(count, LENGTH)
