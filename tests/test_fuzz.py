"""A slice of the fuzz: no error of a hostile row passes in silence.

`python -m tests.fuzz` draws any number of rows, of any engine.
"""

import pytest

from ibnn.engine.native import loader
from tests import fuzz

SEED = 1
# engines that the slice is clean on
ENGINES = ["native", "portable"]
# steps of a row: at most 40 on the nodes, three times, 100 on the units and 60 of the solver
MOST_STEPS = 3 * 40 + 100 + 60


@pytest.mark.parametrize("engine", ENGINES)
def test_no_error_of_a_few_hostile_rows_is_silent(engine):
    if engine == "native" and not loader.available():
        pytest.skip("no C++ compiler: the compiled engine cannot be built")
    tally = fuzz.run(engine, 200, SEED, sizes=(2, 200), uniform_only=True)
    print(f"seed {SEED}: {tally}")
    assert not tally.silent, "\n".join(tally.silent)
    assert tally.most_steps <= MOST_STEPS, tally.slowest
