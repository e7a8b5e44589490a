"""Measures the script time of a frame while the page trains: 500 points, three units.

python -m tests.lab.playground.frame_time [settings of a link]
"""

import sys
import tempfile
import time
from pathlib import Path

from ibnn.lab import playground
from tests.lab.playground.browser import Browser

SECONDS = 10


def main(link: str = "") -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        page = playground.write(Path(folder) / "page.html")
        browser = Browser(Path(folder) / "profile")
        browser.window(1280, 800)
        browser.open(f"{page.as_uri()}#{link}")
        time.sleep(SECONDS)
        times = sorted(browser.evaluate("playground.frameTimes"))
        steps = browser.evaluate("playground.comparison.steps")
        browser.close()
    median, slow = times[len(times) // 2], times[len(times) * 9 // 10]
    print(
        f"script time of a frame: median {median:.1f} ms, nine of ten below {slow:.1f} ms "
        f"({len(times)} frames, {steps} steps in {SECONDS} s)"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
