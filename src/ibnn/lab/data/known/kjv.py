"""The King James Bible: 4.3 million characters of English, in the public domain."""

from ibnn.lab.data.dataset_defaults import Defaults
from ibnn.lab.data.formats.text import LENGTH, TextSource

SOURCE = TextSource(
    "kjv",
    "4.3 million characters of the King James Bible, one plain text file",
    file="kjv.txt",
    defaults=Defaults(image_shape=(LENGTH,), text=True),
)
