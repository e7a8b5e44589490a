"""Tiny files of every format, and a server on the loopback that can misbehave."""

import gzip
import io
import struct
import tarfile
import threading
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import numpy as np
import pytest

from ibnn.lab.data import download


@pytest.fixture
def idx_bytes():
    """An array of bytes in the idx format."""

    def make(array):
        header = struct.pack(f">{1 + array.ndim}I", 0x0800 | array.ndim, *array.shape)
        return header + array.astype(np.uint8).tobytes()

    return make


@pytest.fixture
def idx_contents(idx_bytes):
    """The four packed files of a set like MNIST: 20 training and 10 test images of 5 x 4."""
    random = np.random.RandomState(0)
    arrays = {
        "train-images-idx3-ubyte.gz": random.randint(0, 256, (20, 5, 4)),
        "train-labels-idx1-ubyte.gz": np.arange(20) % 10,
        "t10k-images-idx3-ubyte.gz": random.randint(0, 256, (10, 5, 4)),
        "t10k-labels-idx1-ubyte.gz": np.arange(10),
    }
    packed = {name: gzip.compress(idx_bytes(array), mtime=0) for name, array in arrays.items()}
    return SimpleNamespace(arrays=arrays, packed=packed)


@pytest.fixture
def cifar_records():
    """Six batches of four records each: (labels, images (4, 3, 32, 32))."""
    random = np.random.RandomState(0)
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    return {
        name: (random.randint(0, 10, 4), random.randint(0, 256, (4, 3, 32, 32)).astype(np.uint8))
        for name in names
    }


@pytest.fixture
def cifar_binary(cifar_records):
    """The same as files of the binary version."""
    return {
        f"{name}.bin": np.concatenate(
            [labels[:, None].astype(np.uint8), images.reshape(4, -1)], 1
        ).tobytes()
        for name, (labels, images) in cifar_records.items()
    }


@pytest.fixture
def tar_gz():
    """A .tar.gz with the given members."""

    def make(members):
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w:gz") as tar:
            for name, data in members.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
        return stream.getvalue()

    return make


@pytest.fixture
def md5sum():
    return lambda data: md5(data).hexdigest()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.contents: dict[str, bytes] = {}
        self.ranges: list[str | None] = []  # the Range header of each request
        self.break_after: list[int] = []  # the next answers stop after so many bytes
        self.errors: list[int] = []  # the next answers are these HTTP errors
        self.knows_ranges = True

    def url(self, name):
        return f"http://127.0.0.1:{self.server_port}/{name}"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        assert isinstance(server, _Server)
        asked = self.headers.get("Range")
        server.ranges.append(asked)
        data = server.contents.get(self.path.lstrip("/"))
        if server.errors or data is None:
            self.send_error(server.errors.pop(0) if server.errors else 404)
            return
        start = 0
        if asked and server.knows_ranges:
            start = int(asked.removeprefix("bytes=").rstrip("-"))
            if start >= len(data):
                self.send_error(416)
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        end = start + server.break_after.pop(0) if server.break_after else len(data)
        self.wfile.write(data[start:end])

    def log_message(self, format, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    """A file server on the loopback; `contents` maps names to bytes."""
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(download, "PAUSE", 0.001)
    server = _Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()
