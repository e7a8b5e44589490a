"""Measures the script time of a frame while the page trains: 500 points, three units.

python -m tests.lab.playground.frame_time [settings of a link]
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

from ibnn.lab import playground
from tests.lab.playground.browser import Browser

SECONDS = 10
COUNT_FRAMES = "window.count = 0; (function next() { count++; requestAnimationFrame(next); })()"


def main(link: str = "") -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        page = playground.write(Path(folder) / "page.html")
        browser = Browser(Path(folder) / "profile")
        browser.window(1280, 800)
        # the processor's time, which a busy machine does not stretch
        browser.command("Performance.enable", timeDomain="threadTicks")
        browser.open(f"{page.as_uri()}#{link}")
        browser.wait_for("window.playground?.comparison.steps > 0")
        browser.evaluate(COUNT_FRAMES)
        means: list[float] = []  # of about ten frames each
        end = time.monotonic() + SECONDS
        scripts, frames = _so_far(browser)
        while time.monotonic() < end:
            time.sleep(10 / 60)
            scripts_now, frames_now = _so_far(browser)
            if frames_now > frames:
                means.append(1000 * (scripts_now - scripts) / (frames_now - frames))
            scripts, frames = scripts_now, frames_now
        elapsed = statistics.median(browser.evaluate("playground.frameTimes"))
        steps = browser.evaluate("playground.comparison.steps")
        browser.close()
    print(
        f"script time of a frame, median: {statistics.median(means):.1f} ms of the processor, "
        f"{elapsed:.1f} ms by the clock ({frames} frames, {steps} steps in {SECONDS} s)"
    )


def _so_far(browser: Browser) -> tuple[float, int]:
    """Seconds spent in scripts, and frames."""
    metrics = browser.command("Performance.getMetrics")["metrics"]
    seconds = next(metric["value"] for metric in metrics if metric["name"] == "ScriptDuration")
    return seconds, browser.evaluate("window.count")


if __name__ == "__main__":
    main(*sys.argv[1:])
