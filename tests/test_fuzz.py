"""A slice of the fuzz: no error of a hostile row passes in silence.

`python -m tests.fuzz` draws any number of rows, of any engine.
"""

import pytest

from ibnn.engine.native import loader
from tests import fuzz

SEED = 1
ENGINES = ["native", "portable"]
# steps of a row: at most 40 on the nodes, three times, 100 on the units and 60 of the solver
MOST_STEPS = 3 * 40 + 100 + 60


def check(engine, rows, first, **choices):
    if engine == "native" and not loader.available():
        pytest.skip("no C++ compiler: the compiled engine cannot be built")
    tally = fuzz.run(engine, rows, SEED, first, **choices)
    print(f"seed {SEED}, from row {first}: {tally}")
    assert not tally.silent, "\n".join(tally.silent)
    assert tally.most_steps <= MOST_STEPS, tally.slowest


@pytest.mark.parametrize("engine", ENGINES)
def test_no_error_of_a_few_hostile_rows_is_silent(engine):
    # other couplings of the compiled engine have their turn in the slow suite
    check(engine, 300, 0, sizes=(2, 200), uniform_only=engine == "native")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
@pytest.mark.parametrize("engine", ENGINES)
def test_no_error_of_ten_thousand_hostile_rows_is_silent(engine, part):
    check(engine, 1000, 1000 * part)
