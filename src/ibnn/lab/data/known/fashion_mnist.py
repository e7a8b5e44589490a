"""Fashion-MNIST: pictures of clothes."""

from dataclasses import replace

from ibnn.lab.data.dataset_defaults import GRAY
from ibnn.lab.data.formats.idx import IdxSource, published

_PLACES = (
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
    "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion",
)

# name, size, md5 sum packed and unpacked
_FILES = """
train-images-idx3-ubyte 26421880 8d4fb7e6c68d591d4c3dfef9ec88bf0d f4a8712d7a061bf5bd6d2ca38dc4d50a
train-labels-idx1-ubyte 29515 25c81989df183df01b3e8a0aad5dffbe 9018921c3c673c538a1fc5bad174d6f9
t10k-images-idx3-ubyte 4422102 bef4ecab320f06d8554ea6380940ec79 8181f5470baa50b63fa0f6fddb340f0a
t10k-labels-idx1-ubyte 5148 bb300cfdad3c16e7a12a480ee83cd310 15d484375f8d13e6eb1aabb0c3f46965
"""

SOURCE = IdxSource(
    "fashion-mnist",
    "60,000 + 10,000 pictures of clothes, 28 x 28, gray",
    ("FashionMNIST/raw", "fashion-mnist", "FashionMNIST"),
    published(_PLACES, _FILES),
    defaults=replace(GRAY, image_shape=(1, 28, 28), group="fashion-mnist"),
)
