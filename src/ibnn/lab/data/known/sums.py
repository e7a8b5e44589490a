"""Sums in words, made on the fly: a text with something to learn that needs no download."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ibnn.lab.data.dataset import Dataset, random_state
from ibnn.lab.data.dataset_defaults import Defaults
from ibnn.lab.data.formats.text import LENGTH, characters
from ibnn.lab.data.source import Source

SENTENCES = 1000
_SMALL = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen"),
    *("sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")


def in_words(number: int) -> str:
    """A number below 200 in words.

    >>> in_words(121)
    'one hundred and twenty-one'
    """
    if number >= 100:
        rest = f" and {in_words(number - 100)}" if number > 100 else ""
        return f"one hundred{rest}"
    if number < 20:
        return _SMALL[number]
    ten, one = divmod(number, 10)
    return _TENS[ten - 2] + (f"-{_SMALL[one]}" if one else "")


def sums(count: int) -> str:
    """So many sentences, always the same.

    >>> sums(2)
    'forty-four and fifty-three are ninety-seven.\\neighty-five and one are eighty-six.\\n'
    """
    pairs = random_state("sums", 0).randint(100, size=(count, 2)).tolist()
    return "".join(f"{in_words(a)} and {in_words(b)} are {in_words(a + b)}.\n" for a, b in pairs)


@dataclass(frozen=True)
class SumsSource(Source):
    """Nothing to find: the text is written when it is read."""

    def read(self, files: Sequence[Path]) -> Dataset:
        return characters(sums(SENTENCES), self.name, self.name)


SOURCE = SumsSource(
    "sums",
    "sums of two numbers in words, as text, made on the fly",
    defaults=Defaults(image_shape=(LENGTH,), text=True),
)
