"""The page in a real browser, used as a person uses it: mouse, keys, links, phone and dark."""

import functools
import http.server
import json
import re
import threading
from pathlib import Path

import pytest

from ibnn.lab import playground
from tests.lab.playground.browser import Browser
from tests.lab.playground.make_cases import CASES
from tests.lab.playground.test_math import assert_same

ANSWERS = Path(__file__).with_name("answers.js")
PAUSED = "document.getElementById('play').textContent === 'Play'"
# What a browser shows in a frame, at one step a frame and 60 frames a second.
STEPS_IN_A_MINUTE = 60 * 60


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> str:
    """The page as one file on disk."""
    return playground.write(tmp_path_factory.mktemp("page") / "page.html").as_uri()


@pytest.fixture
def open_page(browser: Browser, address: str):
    """Opens the page with a link's settings, paused; at the end nothing may have complained."""
    browser.errors.clear()

    def open_with(link: str = "", *, width=1280, height=800, dark=False, phone=False) -> Browser:
        browser.window(width, height, dark=dark, phone=phone)
        browser.open(f"{address}#{link}")
        browser.wait_for("window.playground?.comparison.steps > 0")
        browser.evaluate("document.getElementById('play').click()")
        browser.wait_for(PAUSED)
        return browser

    yield open_with
    assert browser.errors == []


def text(page: Browser, selector: str) -> str:
    return page.evaluate(f"document.querySelector({json.dumps(selector)}).textContent")


def setting(page: Browser, name: str):
    return page.evaluate(f"playground.settings.{name}")


def steps(page: Browser) -> int:
    return page.evaluate("playground.comparison.steps")


def test_the_page_opens_from_disk_and_trains_without_a_complaint(open_page):
    page = open_page()
    assert text(page, "#play") == "Play"
    assert re.fullmatch(r"\d+\.\d %", text(page, "#standard-accuracy"))
    assert page.evaluate("document.querySelectorAll('.unit canvas').length") == 2 * 3


@pytest.mark.slow
def test_the_scripts_agree_with_the_library_in_the_browser_too(browser: Browser):
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format, *args):
            pass

    handler = functools.partial(Quiet, directory=str(playground.PAGE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        browser.errors.clear()
        # as modules, not as one file: a static site may serve the folder as it is
        browser.open(f"http://127.0.0.1:{server.server_port}/index.html")
        browser.wait_for("window.playground?.comparison.steps > 0")
        cases = CASES.read_text()
        function = ANSWERS.read_text().replace("export ", "")
        found = browser.evaluate(f"{function}; answers(new URL('./', location).href, {cases})")
        browser.open("about:blank")
        server.shutdown()
    expected = json.loads(cases)
    assert_same(found["neurons"], expected["neurons"])
    assert_same(found["networks"], expected["networks"])
    assert browser.errors == []


@pytest.mark.slow
def test_implicit_neurons_learn_the_arrows_within_a_minute(open_page):
    page = open_page()
    page.click("#play")
    page.wait_for("playground.comparison.implicit.accuracy > 0.95", seconds=120)
    assert steps(page) < STEPS_IN_A_MINUTE
    page.click("#play")
    page.wait_for(PAUSED)
    page.wait_for("document.querySelector('#implicit-accuracy').textContent.slice(0, 2) >= '95'")
    better, worse = (
        page.evaluate(f"playground.comparison.{name}.accuracy") for name in ("implicit", "standard")
    )
    assert better > worse


@pytest.mark.slow
def test_step_takes_one_step_and_reset_and_new_start_go_back(open_page):
    page = open_page()
    weights = "[...playground.comparison.implicit.parameters]"
    page.click("#reset")
    first = page.evaluate(weights)
    page.click("#step")
    assert steps(page) == 1
    assert page.evaluate(weights) != first
    page.click("#reset")
    assert (steps(page), page.evaluate(weights)) == (0, first)
    page.click("#again")
    assert page.evaluate(weights) != first
    assert setting(page, "seed") == 9


@pytest.mark.slow
def test_training_rests_by_itself_and_can_go_on(open_page):
    page = open_page("units=1&points=100")
    page.evaluate("while (playground.comparison.steps < 1998) playground.comparison.step()")
    page.click("#play")
    page.wait_for(PAUSED)
    assert steps(page) == 2000
    page.click("#play")
    page.wait_for("playground.comparison.steps > 2010")


@pytest.mark.slow
def test_the_lam_slider_moves_by_keys_and_says_when_it_passes_the_threshold(open_page):
    page = open_page("lam=0.09")
    assert "up to 1/p = 0.1" in text(page, "#lam-state")
    page.evaluate("document.getElementById('lam-range').focus()")
    for _ in range(3):
        page.press("ArrowRight")
    assert setting(page, "lam") > 0.1
    assert page.evaluate("playground.comparison.implicit.lam") == setting(page, "lam")
    assert text(page, "#lam-state").startswith("Above 1/p = 0.1")
    before = page.evaluate("document.querySelector('.mark').getBoundingClientRect().left")
    page.evaluate("document.getElementById('slope-range').focus()")
    page.press("ArrowLeft")
    assert setting(page, "slope") < 10
    assert page.evaluate("document.querySelector('.mark').getBoundingClientRect().left") > before


@pytest.mark.slow
def test_lam_is_learnt_shown_and_kept_when_learning_ends(open_page):
    page = open_page()
    page.click("#learnLam")
    for _ in range(5):
        page.click("#step")
    learnt = page.evaluate("playground.comparison.implicit.lam")
    assert learnt != -1
    page.wait_for(f"Math.abs(document.getElementById('lam').value - {learnt}) < 1e-3")
    page.click("#learnLam")
    assert page.evaluate("playground.comparison.implicit.lam") == learnt
    assert setting(page, "lam") == learnt


@pytest.mark.slow
def test_an_exact_value_can_be_typed(open_page):
    page = open_page()
    page.evaluate(
        "(() => { const input = document.getElementById('lam'); input.value = '-0.123';"
        "input.dispatchEvent(new Event('change')); })()"
    )
    assert setting(page, "lam") == -0.123
    page.wait_for("location.hash === '#lam=-0.123'")


@pytest.mark.slow
def test_other_networks_have_other_pictures_and_any_layer_can_be_looked_into(open_page):
    page = open_page("units=8&layers=3&activation=tanh")
    assert page.evaluate("document.querySelectorAll('.unit canvas').length") == 2 * 3 * 8
    assert text(page, "#layer-name") == "of layer 1"
    page.click("#implicit-units .layer:last-child .unit")
    page.wait_for("document.querySelector('#layer-name').textContent === 'of layer 3'")
    page.evaluate("document.getElementById('units-range').focus()")
    page.press("ArrowLeft")
    assert page.evaluate("document.querySelectorAll('.unit canvas').length") == 2 * 3 * 7


@pytest.mark.slow
def test_a_link_opens_the_page_as_it_was(open_page):
    page = open_page()
    page.click("#data [value=spirals]")
    page.evaluate("document.getElementById('units-range').focus()")
    page.press("ArrowRight")
    page.wait_for("location.hash.includes('units=4')")
    chosen, link = page.evaluate("[playground.settings, location.hash]")
    assert (chosen["data"], chosen["units"]) == ("spirals", 4)
    page = open_page()
    assert setting(page, "data") == "arrows"
    page = open_page(link.removeprefix("#"))
    assert page.evaluate("playground.settings") == chosen
    assert page.evaluate("document.querySelector('#data :checked').value") == "spirals"
    page.evaluate("location.hash = '#units=2'")  # a link pasted over the address
    page.wait_for("playground.comparison.implicit.hidden[0].outputs === 2")
    assert page.evaluate("document.getElementById('units').value") == "2"


@pytest.mark.slow
def test_the_link_is_copied(open_page):
    page = open_page("lam=0.05")
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    page.click("#share")
    page.wait_for("document.getElementById('share').textContent === 'Copied'")
    assert page.evaluate("window.copied").endswith("#lam=0.05")


@pytest.mark.slow
def test_points_are_drawn_erased_and_carried_by_the_link(open_page):
    page = open_page()
    page.click("#data [value=draw]")
    assert text(page, "#standard-accuracy") == "no points"
    for brush, shift in (("0", -60), ("1", 60)):
        page.click(f"#brush [value='{brush}']")
        left, top = plane_center(page)
        page.drag((left + shift, top - 40), (left + shift, top), (left + shift, top + 40))
    assert (
        page.evaluate("[...playground.comparison.training.labels].sort().join('')")
        == "000000111111"
    )
    page.click("#step")
    assert steps(page) == 1
    page.wait_for("location.hash.includes('drawn=')")
    link, points = page.evaluate("[location.hash, [...playground.comparison.training.points]]")
    page = open_page(link.removeprefix("#"))
    assert sorted(page.evaluate("[...playground.comparison.training.points]")) == sorted(points)
    page.click("#brush [value=erase]")
    left, top = plane_center(page)
    page.drag((left + 60, top))
    assert page.evaluate("playground.comparison.training.labels.length") < 12
    page.click("#clear")
    assert page.evaluate("playground.comparison.training.labels.length") == 0
    page.evaluate("document.getElementById('implicit-plane').focus()")
    page.press("2")
    assert page.evaluate("[...playground.comparison.training.labels]") == [1]


def plane_center(page: Browser) -> tuple[float, float]:
    left, top, size = page.evaluate(
        "(() => { const e = document.getElementById('implicit-plane');"
        "e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
        "return [b.left, b.top, b.width]; })()"
    )
    return left + size / 2, top + size / 2


@pytest.mark.slow
def test_the_keyboard_is_enough(open_page):
    page = open_page()
    page.press("r")
    assert steps(page) == 0
    page.press("s")
    assert steps(page) == 1
    page.press(" ", "Space")
    page.wait_for("playground.comparison.steps > 1")
    page.press(" ", "Space")
    page.wait_for(PAUSED)
    page.evaluate("document.getElementById('standard-plane').focus()")
    x = setting(page, "x")
    caption = text(page, "#map-caption")
    page.press("ArrowRight")
    assert setting(page, "x") > x
    page.wait_for(f"document.getElementById('map-caption').textContent !== {json.dumps(caption)}")
    # every control has a name that a screen reader can say
    nameless = page.evaluate(
        "[...document.querySelectorAll('button, input, select, canvas')].filter(e =>"
        "!(e.getAttribute('aria-label') || e.labels?.length || e.textContent.trim()"
        "|| e.closest('button'))).map(e => e.outerHTML)"
    )
    assert nameless == []


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize(
    ("width", "height"), [(1920, 1080), (1280, 800), (800, 900), (390, 844), (320, 600)]
)
def test_nothing_is_wider_than_the_window_and_both_planes_are_in_it(open_page, width, height, dark):
    page = open_page("units=8&layers=3", width=width, height=height, dark=dark, phone=width < 700)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    boxes = page.evaluate(
        "[...document.querySelectorAll('.plane')].map(e => e.getBoundingClientRect().toJSON())"
    )
    assert boxes[0]["top"] == boxes[1]["top"]  # side by side, on a phone too
    assert boxes[0]["right"] <= boxes[1]["left"]
    networks = "document.querySelector('.networks').getBoundingClientRect().right"
    assert boxes[1]["right"] <= page.evaluate(networks) <= width
    assert all(box["bottom"] < height for box in boxes)
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") != dark
    page.evaluate("document.getElementById('theme').click()")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != paper
