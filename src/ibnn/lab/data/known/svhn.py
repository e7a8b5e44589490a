"""SVHN: cropped house numbers."""

from dataclasses import replace

from ibnn.lab.data.dataset_defaults import COLOR
from ibnn.lab.data.formats.mat import SvhnSource
from ibnn.lab.data.source import Remote

_PLACE = "http://ufldl.stanford.edu/housenumbers"

SOURCE = SvhnSource(
    "svhn",
    "73,257 + 26,032 house numbers, 32 x 32, color; for non-commercial use",
    ("svhn", "SVHN", ""),
    train=Remote((f"{_PLACE}/train_32x32.mat",), "e26dedcc434d2e4c54c9b2d4a06d8373", 182040794),
    test=Remote((f"{_PLACE}/test_32x32.mat",), "eb5a983be6a315427106f1b164d9cef3", 64275384),
    defaults=replace(COLOR, image_shape=(3, 32, 32), group="svhn"),
)
