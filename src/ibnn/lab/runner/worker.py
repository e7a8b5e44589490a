"""A worker process: `python -m ibnn.lab.runner.worker`, one JSON line per job and per event.

The first line it reads says where files are, each further one is a config. It ends when its
input ends, also in the middle of a run: a worker never outlives the command that started it.
"""

import json
import os
import queue
import signal
import sys
import threading
from dataclasses import asdict
from typing import Any

from ibnn.lab.plugins import load_plugins
from ibnn.lab.runner.attempt import Attempts
from ibnn.lab.training import Metrics, RunConfig


def main() -> None:
    """Train what comes in until nothing more does."""
    # Ctrl-C reaches the whole group; the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Whatever prints must not get between the lines of the protocol.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    jobs: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(jobs,), daemon=True).start()

    def reply(kind: str, **values: Any) -> None:
        replies.write(json.dumps({"kind": kind, **values}) + "\n")
        replies.flush()

    def on_epoch(metrics: Metrics) -> None:
        reply("epoch", metrics=asdict(metrics))

    load_plugins()
    attempt = Attempts(**jobs.get())
    while True:
        text = attempt(RunConfig.from_dict(jobs.get()), on_epoch)
        reply("failed" if text else "done", text=text)


def _listen(jobs: queue.SimpleQueue[dict[str, Any]]) -> None:
    for line in sys.stdin:
        jobs.put(json.loads(line))
    os._exit(0)


if __name__ == "__main__":
    main()
