"""The folder of compiled libraries: whose it is, and whether a file in it is what was written.

A library is code that will run here, so a file is loaded only if it belongs to this user (or to
root), nobody else can write to it, and its checksum is the one written after it was built.
"""

import hashlib
import os
import stat
import tempfile
from pathlib import Path


class CacheError(RuntimeError):
    """The folder cannot be used; the message says why."""


def folder() -> Path:
    """The folder, made for this user alone: IBNN_CACHE, or where programs keep such things."""
    chosen = os.environ.get("IBNN_CACHE")
    if chosen:
        path = Path(chosen)
    elif os.environ.get("XDG_CACHE_HOME"):
        path = Path(os.environ["XDG_CACHE_HOME"]) / "ibnn"
    else:
        try:
            path = Path.home() / ".cache" / "ibnn"
        except RuntimeError:  # no home
            path = Path(tempfile.gettempdir()) / f"ibnn-{_user()}"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise CacheError(f"{path} cannot be made: {error.strerror}") from error
    if not belongs_to_us(path):
        raise CacheError(f"{path} belongs to another user, or others may write to it")
    return path


def belongs_to_us(path: Path) -> bool:
    """Whether only this user (or root) can have written here; write access of others is taken
    away where the path is ours."""
    if not hasattr(os, "getuid"):
        return True
    about = path.lstat()
    if stat.S_ISLNK(about.st_mode) or about.st_uid not in (0, os.getuid()):
        return False
    if about.st_mode & 0o022:
        if about.st_uid != os.getuid():
            return False
        path.chmod(about.st_mode & ~0o022)
    return True


def is_whole(library: Path) -> bool:
    """Whether this library is here, ours, and as it was built."""
    try:
        return (
            belongs_to_us(library)
            and belongs_to_us(_checksum_file(library))
            and _checksum_file(library).read_text() == checksum(library)
        )
    except OSError:
        return False


def keep(built: Path, library: Path) -> None:
    """Moves a library that was just built to its place, with its checksum."""
    written = built.with_suffix(".sha256")
    written.write_text(checksum(built))
    os.replace(built, library)
    os.replace(written, _checksum_file(library))


def checksum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _checksum_file(library: Path) -> Path:
    return library.with_suffix(".sha256")


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0
