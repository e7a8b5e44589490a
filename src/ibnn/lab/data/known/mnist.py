"""MNIST: handwritten digits."""

from dataclasses import replace

from ibnn.lab.data.dataset_defaults import GRAY
from ibnn.lab.data.formats.idx import IdxSource, published

_PLACES = ("https://ossci-datasets.s3.amazonaws.com/mnist", "http://yann.lecun.com/exdb/mnist")

# name, size, md5 sum packed and unpacked
_FILES = """
train-images-idx3-ubyte 9912422 f68b3c2dcbeaaa9fbdd348bbdeb94873 6bbc9ace898e44ae57da46a324031adb
train-labels-idx1-ubyte 28881 d53e105ee54ea40749a09fcbcd1e9432 a25bea736e30d166cdddb491f175f624
t10k-images-idx3-ubyte 1648877 9fb629c4189551a2d022fa330f9573f3 2646ac647ad5339dbf082846283269ea
t10k-labels-idx1-ubyte 4542 ec29112dd5afa0611ce80d1b7f02629c 27ae3e4e09519cfbb04c329615203637
"""

SOURCE = IdxSource(
    "mnist",
    "60,000 + 10,000 handwritten digits, 28 x 28, gray",
    ("MNIST/raw", "mnist", "MNIST"),
    published(_PLACES, _FILES),
    defaults=replace(GRAY, image_shape=(1, 28, 28)),
)
