"""Files that are either whole or not there: temporary file, fsync, rename."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

# how the names of temporary files end, which begin with a dot
SUFFIX = ".tmp"


@contextmanager
def atomic(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yields a binary file that takes the place of `path` when the block ends well.

    If the block raises, or the disk is full, `path` is as it was and nothing else is left behind.

    >>> with atomic("numbers.bin") as file:  # doctest: +SKIP
    ...     file.write(b"123")
    """
    # Through a symbolic link, so that the link stays and its target is replaced.
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}{SUFFIX}")
    # Not mkstemp: its mode 0600 would outlive the rename, this one obeys the umask.
    try:
        number = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
    except OSError as error:
        error.filename = os.fspath(path)  # the name somebody chose
        raise
    file = os.fdopen(number, "w+b")
    try:
        with file:
            yield file
            sync(file)
        publish(temporary, target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def sync(file: BinaryIO) -> None:
    """Waits until everything written so far is on the disk."""
    file.flush()
    os.fsync(file.fileno())


def publish(temporary: Path, target: Path) -> None:
    """Renames a complete, synced file to its final name, durably."""
    os.replace(temporary, target)
    if os.name == "nt":  # folders cannot be opened there
        return
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
