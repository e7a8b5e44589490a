"""A re-split of SVHN's test split, for where all of SVHN is too much or cannot be had."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from ibnn.lab.data import verify
from ibnn.lab.data.dataset import Dataset
from ibnn.lab.data.dataset_defaults import COLOR
from ibnn.lab.data.formats.mat import read_mat
from ibnn.lab.data.formats.npz import read_npz
from ibnn.lab.data.known import svhn
from ibnn.lab.data.source import FolderSource, Remote

FILE = "svhn_resplit.npz"


@dataclass(frozen=True)
class ResplitSource(FolderSource):
    """The first images of a published .mat file, cut in two; or an .npz that has them already.

    They are cut where they stand: neighbors show the same house, and a random cut would let a
    network see its test images.
    """

    whole: Remote
    n_train: int
    n_test: int
    sha256: str  # of images and labels, training split first

    @property
    def remotes(self) -> tuple[Remote, ...]:
        return (self.whole,)

    def find(self, root: Path) -> list[Path] | None:
        own = root / FILE
        return [own] if own.is_file() else super().find(root)

    def read(self, files: Sequence[Path]) -> Dataset:
        (file,) = files
        found = read_npz(file, self.name) if file.suffix == ".npz" else self._cut(file)
        parts = found.x_train, found.y_train, found.x_test, found.y_test
        verify.compare_sha256(file, self.sha256, [part.numpy() for part in parts])
        return found

    def _cut(self, file: Path) -> Dataset:
        x, y = (t[: self.n_train + self.n_test] for t in read_mat(file, self.whole.md5))
        sizes = [self.n_train, self.n_test]
        (x_train, x_test), (y_train, y_test) = torch.split(x, sizes), torch.split(y, sizes)
        return Dataset(self.name, x_train, y_train, x_test, y_test, 10, (3, 32, 32))


SOURCE = ResplitSource(
    "svhn-resplit",
    "8,000 + 2,000 images of SVHN's test split, not the split of the paper; for non-commercial use",
    svhn.SOURCE.folders,
    svhn.SOURCE.test,
    n_train=8000,
    n_test=2000,
    sha256="9b94e78ba7a2cede83db48fc35c22fe40f86ac7187095c0c6b7479ab09b9be25",
    defaults=replace(
        COLOR,
        image_shape=(3, 32, 32),
        cpu=replace(COLOR.cpu, n_train=None, n_test=None),
        group="svhn",
        stands_in="10,000 of SVHN's test images, split 8,000 to 2,000, stand in for SVHN and its "
        "73,257 training images.",
    ),
)
