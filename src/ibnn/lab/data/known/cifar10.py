"""CIFAR-10: photographs of ten things."""

from ibnn.lab.data.dataset_defaults import CpuPreset, Defaults
from ibnn.lab.data.formats.cifar import CifarSource
from ibnn.lab.data.source import Remote

_PLACE = "https://www.cs.toronto.edu/~kriz"

SOURCE = CifarSource(
    "cifar10",
    "50,000 + 10,000 photographs of ten things, 32 x 32, color",
    archive=Remote(
        (f"{_PLACE}/cifar-10-binary.tar.gz",), "c32a1d4ab5d03f1284b67883e8d87530", 170052171
    ),
    binary={
        "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
        "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
        "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
        "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
        "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
        "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
    },
    python={
        "data_batch_1": "c99cafc152244af753f735de768cd75f",
        "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
        "data_batch_4": "634d18415352ddfa80567beed471001a",
        "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
        "test_batch": "40351d587109b95175f43aff81a1287e",
    },
    defaults=Defaults(
        image_shape=(3, 32, 32),
        layers=3,
        channels=8,
        widths=(2, 4, 8, 12, 16),
        learning_speed_channels=16,
        cpu=CpuPreset(epochs=10, n_train=3_000, n_test=2_000, widths=(2, 4, 8)),
        group="cifar10",
        expensive=True,
    ),
)
