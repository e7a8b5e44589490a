"""Downloads against a server that breaks, forgets, and lies."""

import errno
import os

import pytest

from ibnn.lab.data import DataError, download
from ibnn.lab.data.source import Remote

DATA = bytes(range(256)) * 4096  # 1 MiB


@pytest.fixture
def remote(server, md5sum):
    server.contents["file.bin"] = DATA
    return Remote((server.url("file.bin"),), md5sum(DATA), len(DATA))


def left_in(folder):
    return sorted(os.listdir(folder))


def test_a_file_arrives_and_is_not_fetched_twice(remote, server, tmp_path):
    path = download.fetch(remote, tmp_path / "new" / "folder")
    assert path.read_bytes() == DATA
    assert download.fetch(remote, tmp_path / "new" / "folder") == path
    assert server.ranges == [None]
    assert left_in(path.parent) == ["file.bin"]


def test_a_lost_connection_is_taken_up_where_it_broke(remote, server, tmp_path):
    server.break_after = [100_000, 1]
    assert download.fetch(remote, tmp_path).read_bytes() == DATA
    assert server.ranges == [None, "bytes=100000-", "bytes=100001-"]


def test_a_partial_file_of_an_earlier_process_is_continued(remote, server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(DATA[:500_000])
    assert download.fetch(remote, tmp_path).read_bytes() == DATA
    assert server.ranges == ["bytes=500000-"]
    assert left_in(tmp_path) == ["file.bin"]


def test_a_complete_partial_file_only_takes_its_name(remote, server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(DATA)
    assert download.fetch(remote, tmp_path).read_bytes() == DATA
    assert server.ranges == []


def test_a_server_without_ranges_sends_it_all_again(remote, server, tmp_path):
    server.knows_ranges = False
    (tmp_path / "file.bin.part").write_bytes(DATA[:500_000])
    assert download.fetch(remote, tmp_path).read_bytes() == DATA


@pytest.mark.parametrize("old", [b"x" * 1000, b"x" * len(DATA), b"x" * (len(DATA) + 1)])
def test_a_wrong_partial_file_is_thrown_away(remote, server, tmp_path, old):
    (tmp_path / "file.bin.part").write_bytes(old)
    assert download.fetch(remote, tmp_path).read_bytes() == DATA
    assert left_in(tmp_path) == ["file.bin"]


def test_a_wrong_sum_is_refused_and_leaves_nothing(remote, server, tmp_path):
    server.contents["file.bin"] = DATA[:-1] + b"?"
    with pytest.raises(DataError, match=rf"file\.bin: expected md5 {remote.md5}, found"):
        download.fetch(remote, tmp_path)
    assert left_in(tmp_path) == []


def test_passing_errors_are_outlasted(remote, server, tmp_path):
    server.errors = [503, 429, 500]
    assert download.fetch(remote, tmp_path).read_bytes() == DATA


def test_a_missing_file_is_not_asked_for_again(server, tmp_path):
    with pytest.raises(DataError, match=r"gone\.bin: HTTP 404"):
        download.fetch(Remote((server.url("gone.bin"),), "", 1), tmp_path)
    assert len(server.ranges) == 1


def test_the_next_address_is_tried(remote, server, tmp_path):
    urls = (server.url("gone/file.bin"), *remote.urls)
    path = download.fetch(Remote(urls, remote.md5, remote.size), tmp_path)
    assert path.read_bytes() == DATA


def test_a_dead_server_keeps_the_partial_file_for_the_next_time(remote, server, tmp_path):
    server.break_after = [300_000] + [0] * download.TRIES
    with pytest.raises(DataError, match="connection lost after 300000 of 1048576 bytes"):
        download.fetch(remote, tmp_path)
    assert left_in(tmp_path) == ["file.bin.part"]
    server.ranges.clear()
    assert download.fetch(remote, tmp_path).read_bytes() == DATA
    assert server.ranges == ["bytes=300000-"]


def test_no_server_at_all_is_said_in_one_line(server, tmp_path):
    url = server.url("file.bin")
    server.shutdown()
    server.server_close()
    with pytest.raises(DataError, match="Connection refused") as caught:
        download.fetch(Remote((url,), "", 1), tmp_path)
    assert url in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_full_disk_gives_its_space_back(remote, tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match=r"cannot write .*file\.bin: No space left"):
        download.fetch(remote, tmp_path)
    assert left_in(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_named(remote, tmp_path):
    (tmp_path / "taken").write_text("a file, not a folder")
    with pytest.raises(DataError, match=r"cannot write .*taken"):
        download.fetch(remote, tmp_path / "taken")
