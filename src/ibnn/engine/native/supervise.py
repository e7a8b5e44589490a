"""Runs a command and ends all of it, and its working folder, when whoever asked for it is gone.

    python supervise.py FOLDER SECONDS COMMAND...

A compiler starts processes of its own, which would go on after a Ctrl-C or a kill.
"""

import os
import shutil
import signal
import subprocess
import sys
import time


def main(folder: str, seconds: str, *command: str) -> int:
    parent, end = os.getppid(), time.monotonic() + float(seconds)
    told = []  # not an exception: it could come between the start of the command and `try`
    signal.signal(signal.SIGTERM, lambda *_: told.append(1))
    process = subprocess.Popen(command, start_new_session=True)
    try:
        while process.poll() is None:
            if told:
                return 1
            if os.getppid() != parent:
                shutil.rmtree(folder, ignore_errors=True)
                return 1
            if time.monotonic() > end:
                print(f"not done after {seconds} s", file=sys.stderr)
                return 1
            time.sleep(0.05)
        return process.returncode
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
