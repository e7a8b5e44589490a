"""The parts of the page that need no browser: training, links, points drawn by hand."""

import re
from typing import Any

import pytest

from ibnn.lab.playground import PAGE
from tests.lab.playground.scripts import NODE, run_module

pytestmark = pytest.mark.skipif(NODE is None, reason="no Node.js is installed")

IMPORTS = f"""
import {{ Comparison }} from "{PAGE.as_uri()}/comparison.js";
import {{ Drawing }} from "{PAGE.as_uri()}/data/drawing.js";
import {{ defaults, fromLink, toLink }} from "{PAGE.as_uri()}/settings.js";
"""
# Seconds to a minute: at one step a frame and 60 frames a second.
STEPS_IN_A_MINUTE = 60 * 60


def run(source: str, given: Any = None) -> Any:
    return run_module(IMPORTS + source, given)


TRAIN = """
const answer = given.map(({ steps, shift, ...changed }) => {
  const comparison = new Comparison({ ...defaults(), ...changed }, new Drawing());
  for (const { parameters } of comparison.networks) parameters[0] += shift ?? 0;
  for (let i = 0; i < steps; i++) comparison.step();
  const { standard, implicit } = comparison;
  return [standard.accuracy, implicit.accuracy, standard.loss, implicit.loss, implicit.lam];
});
"""


def test_as_it_opens_the_page_learns_the_arrows_within_a_tenth_of_a_minute():
    # a shift of one weight stands for browsers whose tanh and exp round differently
    shifts = (0.0, 1e-9, 1e-3)
    for _, implicit, *_ in run(
        TRAIN, [{"steps": STEPS_IN_A_MINUTE // 10, "shift": s} for s in shifts]
    ):
        assert implicit > 0.98


def test_at_lam_0_both_networks_are_the_same():
    [[standard, implicit, loss, other_loss, _]] = run(TRAIN, [{"steps": 50, "lam": 0}])
    assert standard == implicit
    assert loss == pytest.approx(other_loss, rel=1e-12)


def test_a_learnt_lam_survives_a_change_of_the_learning_rate():
    source = """
    const settings = { ...defaults(), learnLam: true };
    const comparison = new Comparison(settings, new Drawing());
    for (let i = 0; i < 20; i++) comparison.step();
    const learnt = comparison.implicit.lam;
    comparison.adjust({ ...settings, rate: 0.1 });
    const answer = [settings.lam, learnt, comparison.implicit.lam];
    """
    start, learnt, kept = run(source)
    assert learnt != start
    assert kept == learnt


def test_a_learnt_lam_moves_and_stays_below_the_threshold():
    below, above = run(
        TRAIN,
        [
            {"steps": 50, "lam": -0.1, "learnLam": True},
            {"steps": 50, "lam": 0.09, "learnLam": True, "rate": 0.1},
        ],
    )
    assert below[-1] != -0.1
    assert above[-1] <= 0.095


@pytest.mark.slow
def test_the_page_says_truly_how_good_its_start_is():
    html = (PAGE / "index.html").read_text()
    said = re.findall(r"([\d.]+)\s%", re.search(r'id="honesty">(.*?)</p>', html, re.DOTALL)[1])
    results = run(TRAIN, [{"steps": 2000, "seed": seed} for seed in range(24)])
    expected = []
    for network in (0, 1):
        of_seeds = [result[network] for result in results]
        expected += [max(of_seeds), sorted(of_seeds)[12]]
        default = run("const answer = defaults().seed;")
        assert of_seeds[default] == max(of_seeds)
    assert [float(number) for number in said] == pytest.approx([100 * e for e in expected], abs=0.3)


def test_a_link_carries_every_setting_and_nothing_that_is_as_usual():
    chosen = {
        "data": "draw",
        "points": 300,
        "lam": 0.05,
        "slope": 20,
        "learnLam": True,
        "units": 5,
        "layers": 2,
        "activation": "tanh",
        "rate": 0.1,
        "seed": 3,
        "x": 0.5,
        "y": -0.25,
        "drawn": "abcd.efgh",
    }
    back, usual, names = run(
        "const answer = [fromLink('#' + toLink(given)), toLink(defaults()), defaults()];", chosen
    )
    assert back == chosen
    assert usual == ""
    assert names.keys() == chosen.keys()
    assert not chosen.items() & names.items()


@pytest.mark.parametrize(
    ("link", "name", "value"),
    [
        ("lam=1e9", "lam", 2),
        ("lam=", "lam", -1),
        ("units=2.6", "units", 3),
        ("units=many", "units", 3),
        ("slope=-5", "slope", 1),
        ("data=photos", "data", "arrows"),
        ("activation=constructor", "activation", "relu"),
        ("colour=red", "seed", 8),
    ],
)
def test_a_broken_link_falls_back_to_what_is_allowed(link, name, value):
    assert run("const answer = fromLink(given);", f"#{link}")[name] == value


def test_points_drawn_by_hand_survive_their_link():
    source = """
    const drawing = new Drawing();
    for (const [x, y, label] of given) drawing.add(x, y, label, 3);
    const answer = [drawing.points, new Drawing(drawing.toString()).points, drawing.toString()];
    """
    drawn, read, text = run(source, [[0.5, -0.3, 1], [-1, 1, 0], [0.1, 0.2, 1], [2, 2, 0]])
    assert sorted(drawn) == sorted(read)
    assert re.fullmatch(r"[\w.-]*", text)  # nothing that an address would have to escape
    assert len(text) == 4 * 12 + 1


def test_unreadable_points_are_left_out():
    [points] = run("const answer = [new Drawing(given).points];", "AAAA!ab?.____x.AAAA")
    assert points == [[-1, -1, 0], [1, 1, 1]]
