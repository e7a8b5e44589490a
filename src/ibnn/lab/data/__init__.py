"""Datasets whole in memory: found on disk, downloaded, made, or a user's own."""

from ibnn.lab.data.batches import as_float, batches
from ibnn.lab.data.catalogue import (
    Status,
    check,
    content_checksum,
    default_root,
    defaults,
    get,
    groups,
    load,
    names,
    register_dataset,
    status,
)
from ibnn.lab.data.dataset import Dataset
from ibnn.lab.data.dataset_defaults import CpuPreset, Defaults
from ibnn.lab.data.errors import DataError
from ibnn.lab.data.known.plane import arrow_outlines, draw
from ibnn.lab.data.source import Source

__all__ = [
    "CpuPreset",
    "DataError",
    "Dataset",
    "Defaults",
    "Source",
    "Status",
    "arrow_outlines",
    "as_float",
    "batches",
    "check",
    "content_checksum",
    "default_root",
    "defaults",
    "draw",
    "get",
    "groups",
    "load",
    "names",
    "register_dataset",
    "status",
]
