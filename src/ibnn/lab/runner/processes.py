"""Engine `processes`: N worker processes on this machine, the cores divided among them.

One thread here per worker hands it runs and passes its events on. A worker that dies is
replaced and its run goes on from its checkpoint.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict

from ibnn.engine.native import loader
from ibnn.lab.runner.attempt import record
from ibnn.lab.runner.options import RunnerError, RunnerOptions, python_path
from ibnn.lab.runner.outcome import Emit, Event
from ibnn.lab.training import Metrics, RunConfig


class WorkerLostError(Exception):
    """A worker process ended in the middle of a run."""


def run(configs: Sequence[RunConfig], options: RunnerOptions, emit: Emit) -> None:
    """Train all, `options.workers` at a time; events are emitted from the calling thread."""
    loader.available()  # compiled once here, not by every worker at the same time
    todo: queue.SimpleQueue[RunConfig] = queue.SimpleQueue()
    for config in configs:
        todo.put(config)
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    workers = [Worker(options, number) for number in range(min(options.workers, len(configs)))]
    threads = [
        threading.Thread(target=_drive, args=(worker, todo, events, options), daemon=True)
        for worker in workers
    ]
    for thread in threads:
        thread.start()
    try:
        left = len(configs)
        while left:
            event = events.get()
            left -= event.kind in ("done", "failed")
            emit(event)
    finally:
        for worker in workers:
            worker.stop()
        for thread in threads:
            thread.join()
        for worker in workers:
            worker.close()


def _drive(
    worker: Worker,
    todo: queue.SimpleQueue[RunConfig],
    events: queue.SimpleQueue[Event],
    options: RunnerOptions,
) -> None:
    while not worker.stopped:
        try:
            config = todo.get_nowait()
        except queue.Empty:
            return worker.stop()
        for attempt in range(options.retries + 1):
            try:
                worker.train(config, events.put)
                break
            except WorkerLostError as error:
                if worker.stopped:
                    return None
                if attempt < options.retries:
                    events.put(Event(kind="lost", config=config, text=str(error)))
                    continue
                lost = RunnerError(
                    f"lost its worker in attempt {attempt + 1} of {attempt + 1}: {error}"
                )
                text = record(options.root, config, lost)
            except Exception as error:
                text = record(options.root, config, error)
            events.put(Event(kind="failed", config=config, text=text))
            break
    return None


class Worker:
    """One child process, started when first needed and again after it was lost."""

    def __init__(self, options: RunnerOptions, number: int = 0):
        self.stopped = False
        self._number = number
        self._options = options
        self._process: subprocess.Popen[str] | None = None
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the worker)
        self._starting = threading.Lock()

    def train(self, config: RunConfig, emit: Emit) -> None:
        """Train one run in the child; returns when it is done or has failed."""
        process = self._alive()
        assert process.stdin is not None
        assert process.stdout is not None
        emit(Event(kind="started", config=config, pid=process.pid))
        try:
            process.stdin.write(json.dumps(asdict(config)) + "\n")
            process.stdin.flush()
        except OSError:
            raise WorkerLostError(self._last_words(process)) from None
        for line in process.stdout:
            try:
                reply = json.loads(line)
            except ValueError:  # killed while it wrote
                break
            if reply["kind"] == "epoch":
                metrics = Metrics.from_dict(reply["metrics"])
                emit(Event(kind="epoch", config=config, metrics=metrics))
            else:
                emit(Event(kind=reply["kind"], config=config, text=reply["text"]))
                return
        raise WorkerLostError(self._last_words(process))

    def stop(self) -> None:
        """End the child now; its run keeps its last checkpoint."""
        with self._starting:
            self.stopped = True
            process = self._process
        if process is not None:
            process.kill()
            process.wait()

    def close(self) -> None:
        """Let go of the child's pipes, once nobody reads them any more."""
        self._close_pipes()
        self._stderr.close()

    def _alive(self) -> subprocess.Popen[str]:
        with self._starting:
            if self.stopped:
                raise WorkerLostError("stopped")
            if self._process is None or self._process.poll() is not None:
                self._close_pipes()
                self._process = self._start()
            return self._process

    def _close_pipes(self) -> None:
        if self._process is not None:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with suppress(OSError):  # what was still to be written has no reader
                        pipe.close()

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "ibnn.lab.runner.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
            env={**os.environ, **self._options.environment(), "PYTHONPATH": python_path()},
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(self._options.attempt(self._number)) + "\n")
        process.stdin.flush()
        return process

    def _last_words(self, process: subprocess.Popen[str]) -> str:
        code = process.wait()
        if code < 0:
            return f"killed by {signal.Signals(-code).name}"
        self._stderr.seek(max(0, self._stderr.seek(0, os.SEEK_END) - 2000))
        words = self._stderr.read().decode(errors="replace").strip().splitlines()
        return f"ended with code {code}" + (f": {words[-1]}" if words else "")
