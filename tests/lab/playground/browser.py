"""A headless Chromium, driven over its DevTools pipe: no other package is needed."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

CHROMIUM = next(
    (
        found
        for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
        if (found := shutil.which(name))
    ),
    None,
)

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
]
PATIENCE = 60  # seconds for one answer: the machine may be busy

# Chromium reads commands from descriptor 3 and answers on 4.
LAUNCH = "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); "
LAUNCH += "os.execv(sys.argv[3], sys.argv[3:])"


class Browser:
    """One browser process and one tab in it; `errors` is what the page complained of."""

    def __init__(self, profile: Path):
        assert CHROMIUM is not None
        commands, self._to = os.pipe()
        self._from, answers = os.pipe()
        # above 9, so that neither is in the way of 3 and 4
        given = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (commands, answers)]
        launch = [sys.executable, "-c", LAUNCH, *map(str, given)]
        self._process = subprocess.Popen(
            [*launch, CHROMIUM, *FLAGS, f"--user-data-dir={profile}"],
            pass_fds=given,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for fd in (commands, answers, *given):
            os.close(fd)
        self._unread = b""
        self._last = 0
        self._session: str | None = None
        self.errors: list[str] = []
        target = self.command("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.command("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log"):
            self.command(f"{domain}.enable")

    def close(self) -> None:
        self._session = None
        self.command("Browser.close")
        self._process.wait(PATIENCE)
        os.close(self._to)
        os.close(self._from)

    def command(self, method: str, **params: Any) -> dict[str, Any]:
        """One DevTools command, and its answer."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._last:
            self._note(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            if not select.select([self._from], [], [], PATIENCE)[0]:
                raise TimeoutError(f"Chromium said nothing for {PATIENCE} s")
            part = os.read(self._from, 1 << 16)
            if not part:
                raise RuntimeError("Chromium ended")
            self._unread += part
        message, _, self._unread = self._unread.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.errors.append(str(params["exceptionDetails"]))
        elif event.get("method") == "Runtime.consoleAPICalled":
            self.errors.append(str(params["args"]))
        elif event.get("method") == "Log.entryAdded":
            self.errors.append(str(params["entry"]))

    def open(self, url: str) -> None:
        """Goes to an address and waits until the page has loaded."""
        self.command("Page.navigate", url="about:blank")
        self.command("Page.navigate", url=url)
        self.wait_for(f"location.href === {json.dumps(url)} && document.readyState === 'complete'")

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page; promises are awaited."""
        answer = self.command(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait_for(self, condition: str, seconds: float = PATIENCE) -> None:
        """Until an expression of the page is true."""
        end = time.monotonic() + seconds
        while not self.evaluate(condition):
            if time.monotonic() > end:
                raise TimeoutError(f"not true after {seconds} s: {condition}")
            time.sleep(0.05)

    def window(self, width: int, height: int, *, dark: bool = False, phone: bool = False) -> None:
        """The size of the window and the theme of the system."""
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )
        self.command("Emulation.setTouchEmulationEnabled", enabled=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.command("Emulation.setEmulatedMedia", features=[scheme])

    def press(self, key: str, code: str = "") -> None:
        """One key, as a person presses it."""
        text = {"text": key} if len(key) == 1 else {}
        codes = {"windowsVirtualKeyCode": _KEY_CODES.get(key, 0)}
        for kind in ("keyDown", "keyUp"):
            self.command(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=code or key,
                **codes,
                **(text if kind == "keyDown" else {}),
            )

    def drag(self, *places: tuple[float, float]) -> None:
        """The mouse pressed at the first place (in CSS pixels), moved on, let go at the last."""
        kinds = ["mousePressed"] + ["mouseMoved"] * (len(places) - 1) + ["mouseReleased"]
        for kind, (x, y) in zip(kinds, [*places, places[-1]], strict=True):
            self.command(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1
            )

    def click(self, selector: str) -> None:
        """A click in the middle of an element."""
        box = self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
            "return [b.left + b.width / 2, b.top + b.height / 2]; })()"
        )
        self.drag((box[0], box[1]))

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """The window, or the whole page, as a PNG."""
        data = self.command("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))


_KEY_CODES = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, " ": 32}
