"""A re-split of SVHN's test split, for where SVHN itself cannot be had."""

from dataclasses import replace

from ibnn.lab.data.dataset_defaults import COLOR
from ibnn.lab.data.formats.npz import NpzSource

SOURCE = NpzSource(
    "svhn-resplit",
    "a re-split of the SVHN test split, not the split of the paper; for non-commercial use",
    file="svhn_resplit.npz",
    defaults=replace(
        COLOR,
        image_shape=(3, 32, 32),
        cpu=replace(COLOR.cpu, n_train=None, n_test=None),
        group="svhn",
        stands_in="10,000 of SVHN's test images, split 8,000 to 2,000, stand in for SVHN and its "
        "73,257 training images.",
    ),
)
