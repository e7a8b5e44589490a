"""Datasets whole in memory: found on disk, downloaded, made, or a user's own."""

from ibnn.lab.data.batches import batches
from ibnn.lab.data.catalogue import Status, check, default_root, get, load, names, status
from ibnn.lab.data.dataset import Dataset
from ibnn.lab.data.errors import DataError
from ibnn.lab.data.plane import arrow_outlines, draw

__all__ = [
    "DataError",
    "Dataset",
    "Status",
    "arrow_outlines",
    "batches",
    "check",
    "default_root",
    "draw",
    "get",
    "load",
    "names",
    "status",
]
