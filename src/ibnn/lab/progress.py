"""What is seen of long work: bars on a terminal; where nobody watches, a line now and then."""

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

PLAIN_SECONDS = 10.0  # between two lines without a terminal


class Bars:
    """Progress bars on stderr for the time of a `with` block."""

    def __init__(self, console: Console | None = None, width: int = 24):
        self._console = console or Console(stderr=True)
        self._live = self._console.is_terminal
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=width),
            TextColumn("{task.fields[note]}"),
            console=self._console,
            disable=not self._live,
            transient=True,
        )
        self._spoke = time.monotonic()

    def __enter__(self):
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def say(self, text: str) -> None:
        """One line that stays."""
        self._spoke = time.monotonic()
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def say_now_and_then(self, text: str) -> None:
        """The same where there is no terminal to draw bars on, and not too often."""
        if not self._live and time.monotonic() - self._spoke >= PLAIN_SECONDS:
            self.say(text)


class OneBar(Bars):
    """One bar, whose time left is judged by the pace since it began."""

    def __init__(self, console: Console | None = None):
        super().__init__(console)
        self._task = self._bars.add_task("", total=1, note="")
        self._first: tuple[float, float] | None = None

    def advance(self, done: float, total: float, name: str, text: str) -> None:
        """`done` of `total`, in any unit that grows with the time, under this name."""
        now = time.monotonic()
        self._first = self._first or (now, done)
        began, before = self._first
        if done > before:
            text += f", {duration((now - began) / (done - before) * (total - done))} left"
        self._bars.update(self._task, completed=done, total=total, description=name, note=text)
        self.say_now_and_then(f"{name}: {text}")


class Steps(OneBar):
    """One bar for work in steps: call it with how many are done, of how many, and what is next.

    >>> with Steps() as tell:
    ...     for number in range(3):
    ...         tell(number, 3, f"step {number}")
    """

    def begin(self, text: str) -> None:
        """Other work follows: its time is counted anew, and without a terminal a line says so."""
        self._first = None
        self._bars.update(self._task, completed=0, total=1, description="", note=text)
        if not self._live:
            self.say(f"{text} ...")

    def __call__(self, done: float, total: float, text: str = "") -> None:
        """`done` and `total` may be in any unit that grows with the time."""
        self.advance(done, total, f"{100 * done / total:.0f} %" if total else "", text)


def duration(seconds: float) -> str:
    """A time for people.

    >>> duration(4), duration(125), duration(7300)
    ('4 s', '2 min 5 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
