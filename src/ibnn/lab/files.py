"""Files that are either whole or not there: bytes, text, JSON, and JSON with a checksum."""

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ibnn.conversion.atomic_file import SUFFIX, atomic
from ibnn.conversion.atomic_file import publish as publish
from ibnn.conversion.atomic_file import sync as sync

StrPath = str | os.PathLike[str]

_CHECKSUM = "sha256"


def write_bytes(path: StrPath, data: bytes) -> None:
    """Writes `data` to `path`, whole or not at all."""
    with atomic(path) as file:
        file.write(data)


def write_text(path: StrPath, text: str) -> None:
    """Writes `text` as UTF-8 to `path`, whole or not at all."""
    write_bytes(path, text.encode())


def write_json(path: StrPath, value: Any) -> None:
    """Writes `value` as indented JSON, whole or not at all.

    NaN and infinity are not JSON (a browser refuses them): ValueError. Write None for them.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    write_text(path, text + "\n")


def write_signed_json(path: StrPath, value: Mapping[str, Any]) -> None:
    """`write_json` of an object, with a checksum of it as its last key."""
    write_json(path, {**value, _CHECKSUM: _digest(value)})


def read_signed_json(path: StrPath) -> dict[str, Any]:
    """What `write_signed_json` wrote; an object without a checksum, of an older version, passes.

    Raises:
        ValueError: it is not a JSON object, or its checksum does not fit.
    """
    value = json.loads(Path(path).read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise ValueError(f"expected an object, found a {type(value).__name__}")
    expected = value.pop(_CHECKSUM, None)
    if expected is not None and expected != _digest(value):
        raise ValueError("its checksum does not fit its contents")
    return value


def _digest(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def sweep(folder: StrPath) -> None:
    """Removes the temporary files of writers that were killed; nobody else may be writing."""
    for left in Path(folder).glob(f".*{SUFFIX}"):
        with suppress(OSError):
            left.unlink()
