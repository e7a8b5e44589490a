"""Downloads that resume, retry, check the md5 sum, and only then take their final name."""

import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ibnn.lab import files
from ibnn.lab.data import verify
from ibnn.lab.data.errors import DataError
from ibnn.lab.data.source import Remote

TRIES = 4  # in a row without a single new byte
PAUSE = 0.5  # seconds before the second try, doubled for each further one
TIMEOUT = 30.0  # seconds without an answer

Report = Callable[[int, int | None], None]  # bytes so far, bytes in all if known


def fetch(remote: Remote, folder: Path) -> Path:
    """Downloads `remote` into `folder` unless it is there; partial files (.part) are continued."""
    target = folder / remote.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            _fetch(remote, target)
    except OSError as error:
        raise DataError(f"cannot write {target}: {error.strerror or error}") from error
    return target


def _fetch(remote: Remote, target: Path) -> None:
    part = target.with_name(target.name + ".part")
    problems: list[str] = []
    for url in remote.urls:
        try:
            with _bar(remote) as report:
                _complete(url, remote, part, report)
        except DataError as error:
            problems += error.problems
        else:
            files.publish(part, target)
            return
    raise DataError(*problems)


def _complete(url: str, remote: Remote, part: Path, report: Report) -> None:
    """Brings `part` to its full, checked contents, or raises with the reason."""
    resumed = _size(part) > 0
    while True:
        if _size(part) != remote.size:
            _append_patiently(url, part, report)
        found = verify.file_md5(part)
        if found == remote.md5:
            return
        part.unlink()
        if not resumed:
            raise DataError(f"{url}: expected md5 {remote.md5}, found {found}")
        resumed = False  # the old beginning may have been at fault: once more from the start


def _append_patiently(url: str, part: Path, report: Report) -> None:
    tries, size = 1, _size(part)
    while True:
        try:
            return _append(url, part, report)
        except urllib.error.HTTPError as error:
            reason = f"HTTP {error.code} {error.reason}"
            hopeless = 400 <= error.code < 500 and error.code not in (408, 429)
        except (urllib.error.URLError, http.client.HTTPException, _Network) as error:
            reason, hopeless = str(getattr(error, "reason", error)), False
        grown = _size(part) > size
        tries, size = (1 if grown else tries + 1), _size(part)
        if hopeless or tries > TRIES:
            raise DataError(f"{url}: {reason}")
        time.sleep(PAUSE * 2 ** max(0, tries - 2))


class _Network(Exception):
    """The connection failed; kept apart from OSError, which here means the disk."""


def _append(url: str, part: Path, report: Report) -> None:
    """One request for what `part` lacks."""
    have = _size(part)
    request = urllib.request.Request(url, headers={"User-Agent": "ibnn"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        answer = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # nothing lies beyond what we have: the md5 sum decides
            return
        raise
    except (ConnectionError, TimeoutError) as error:
        raise _Network(error) from error
    with answer:
        start, total = _range(answer)
        got = start = start if start == have else 0
        report(got, total)
        try:
            with part.open("r+b" if start else "wb") as file:
                file.seek(start)
                while piece := _receive(answer):
                    file.write(piece)
                    got += len(piece)
                    report(got, total)
                file.flush()
                os.fsync(file.fileno())
        except OSError:  # the disk is full: give the space back
            part.unlink(missing_ok=True)
            raise
    if total is not None and got < total:
        raise _Network(f"connection lost after {got} of {total} bytes")


def _range(answer: http.client.HTTPResponse) -> tuple[int, int | None]:
    """Where the answer's bytes begin in the file, and how long the file is."""
    length = answer.headers.get("Content-Length", "")
    if answer.status != 206:
        return 0, int(length) if length.isdigit() else None
    extent, _, total = answer.headers.get("Content-Range", "").removeprefix("bytes ").partition("/")
    start = extent.partition("-")[0]
    if not start.isdigit():
        raise _Network(f"unreadable Content-Range {answer.headers.get('Content-Range')!r}")
    return int(start), int(total) if total.isdigit() else None


def _receive(answer: http.client.HTTPResponse) -> bytes:
    try:
        return answer.read(1 << 18)
    except OSError as error:
        raise _Network(error) from error


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Lets one process at a time download below a folder; the others wait.

    Without locks (Windows, some network disks) two at once can spoil a .part file, which its md5
    sum then tells.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".download.lock").open("w")
    except OSError as error:
        raise DataError(f"cannot write into {folder}: {error.strerror or error}") from error
    with lock:
        with suppress(ImportError, OSError):
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _bar(remote: Remote) -> Iterator[Report]:
    try:
        from ibnn.lab.progress import Steps
    except ModuleNotFoundError:  # without the extra `lab`: no bar
        yield lambda done, total: None
        return
    with Steps() as steps:
        steps.begin(remote.name)

        def report(done: int, total: int | None) -> None:
            whole = total or remote.size
            steps(done, whole, f"{remote.name}, {done / 1e6:.1f} of {whole / 1e6:.1f} MB")

        yield report
