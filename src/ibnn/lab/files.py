"""Files that are either whole or not there: temporary file, fsync, rename."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

_SUFFIX = ".tmp"


@contextmanager
def atomic(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yields a binary file that takes the place of `path` when the block ends well.

    If the block raises, or the disk is full, `path` is as it was and nothing else is left behind.

    >>> with atomic("numbers.bin") as file:  # doctest: +SKIP
    ...     file.write(b"123")
    """
    # Through a symbolic link, so that the link stays and its target is replaced.
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}{_SUFFIX}")
    # Not mkstemp: its mode 0600 would outlive the rename, this one obeys the umask.
    file = os.fdopen(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666), "w+b")
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        publish(temporary, target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def publish(temporary: Path, target: Path) -> None:
    """Renames a complete, synced file to its final name, durably."""
    os.replace(temporary, target)
    _sync_folder(target.parent)


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes `data` to `path`, whole or not at all."""
    with atomic(path) as file:
        file.write(data)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes `text` as UTF-8 to `path`, whole or not at all."""
    write_bytes(path, text.encode())


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Writes `value` as indented JSON, whole or not at all.

    NaN and infinity are not JSON (a browser refuses them): ValueError. Write None for them.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    write_text(path, text + "\n")


def sweep(folder: str | os.PathLike[str]) -> None:
    """Removes the temporary files of writers that were killed; nobody else may be writing."""
    for left in Path(folder).glob(f".*{_SUFFIX}"):
        with suppress(OSError):
            left.unlink()


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # folders cannot be opened there
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
