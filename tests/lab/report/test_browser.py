"""The report in a real browser: it loads from disk, shows its figure and table, complains of
nothing."""

import re
import shutil
import subprocess
from html import escape
from pathlib import Path

import pytest

from ibnn.lab.experiments import Settings, get
from ibnn.lab.report import write_report
from ibnn.lab.runner import run_all

CHROMIUM = next(
    (
        found
        for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
        if (found := shutil.which(name))
    ),
    None,
)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")

# A picture that did not load, or a table that is cut off, shows only in a live page.
PROBE = """
<script>
addEventListener("load", () => {
  const found = parent.document.body.dataset;  // of the page around the frame
  const images = [...document.images];
  found.pictures = images.filter(i => i.complete && i.naturalWidth > 800).length;
  found.rows = document.querySelectorAll(".claims tbody tr").length;
  found.overflow = document.documentElement.scrollWidth > innerWidth;
  // whatever is wider than the window scrolls within its own frame
  const wide = [...document.querySelectorAll("table, img")].filter(
    e => e.getBoundingClientRect().right > innerWidth && !e.closest(".scroll"));
  found.cut = wide.length;
  found.width = innerWidth;
});
</script>
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    """A report of very few runs: it has everything a full one has."""
    root = tmp_path_factory.mktemp("browser")
    experiment, settings = get("boundary"), Settings(preset="smoke", seeds=1, epochs=1)
    run_all(experiment.plan(settings, {}), root, "ensemble")
    return write_report(experiment, settings, root)


def open_page(page: Path, profile: Path, *, width: int) -> tuple[str, str]:
    """The page's document after loading, and what the browser said to its console."""
    assert CHROMIUM is not None
    done = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            f"--user-data-dir={profile}",
            f"--window-size={width},900",
            "--enable-logging=stderr",
            "--v=0",
            "--virtual-time-budget=5000",
            "--dump-dom",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    console = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    return done.stdout, "\n".join(console)


def test_the_page_shows_its_figures_and_table_and_no_error(page, tmp_path):
    html, console = open_page(page, tmp_path / "profile", width=1200)
    assert console == ""
    assert html.count('<img src="data:image/png') == 4
    assert "The paper says" in html
    assert "Where each network is undecided" in html


@pytest.mark.slow
@pytest.mark.parametrize("width", [1100, 390])
def test_pictures_load_and_nothing_is_wider_than_the_window(page, tmp_path, width):
    # in a frame: a window of the browser is never narrower than 500 pixels
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text())
    text = escape(text.replace("</body>", PROBE + "</body>"))
    probed = tmp_path / "probed.html"
    frame = f'<iframe srcdoc="{text}" width="{width}" height="900" style="border: 0"></iframe>'
    probed.write_text(f"<!DOCTYPE html><html><body>{frame}</body></html>")
    html, console = open_page(probed, tmp_path / "profile", width=1300)
    assert console == ""
    assert 'data-pictures="4"' in html
    assert 'data-rows="4"' in html
    assert 'data-overflow="false"' in html
    assert 'data-cut="0"' in html
    assert f'data-width="{width}"' in html
