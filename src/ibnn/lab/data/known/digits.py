"""scikit-learn's 1797 handwritten digits, 8 x 8: real images that need no download."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ibnn.lab.data.dataset import Dataset, random_state
from ibnn.lab.data.dataset_defaults import GRAY, CpuPreset
from ibnn.lab.data.errors import DataError
from ibnn.lab.data.source import Source

_TEST_FRACTION = 0.2


@dataclass(frozen=True)
class DigitsSource(Source):
    """They come in scikit-learn's package; the split into training and test data is ours."""

    def find(self, root: Path) -> list[Path] | None:
        return [] if find_spec("sklearn") else None

    def advice(self, root: Path) -> str:
        return "it comes with scikit-learn: pip install 'ibnn[lab]'"

    def download(self, root: Path) -> None:
        raise DataError("scikit-learn is not installed")

    def read(self, files: Sequence[Path]) -> Dataset:
        from sklearn.datasets import load_digits

        bunch: Any = load_digits()
        # Pixels count ink from 0 to 16.
        images = np.rint(bunch.images * (255 / 16)).astype(np.uint8)[:, None]
        labels = bunch.target
        test = np.zeros(len(labels), dtype=bool)
        random = random_state("digits", 0)
        for label in range(10):
            members = random.permutation(np.flatnonzero(labels == label))
            test[members[: round(_TEST_FRACTION * members.size)]] = True
        splits = (images[~test], labels[~test], images[test], labels[test])
        return Dataset.of_arrays(self.name, *splits, classes=10)


SOURCE = DigitsSource(
    "digits",
    "1,438 + 359 handwritten digits, 8 x 8, gray, from scikit-learn",
    defaults=replace(
        GRAY,
        image_shape=(1, 8, 8),
        cpu=CpuPreset(n_train=None, n_test=None, widths=(1, 2, 3, 4)),
    ),
)
