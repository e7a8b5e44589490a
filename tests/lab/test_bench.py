"""The benchmarks count, fit and judge rightly, and write what they measured. Nothing is timed."""

import importlib
import json
import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import ibnn
from ibnn.lab.bench import (
    BenchSettings,
    busy,
    cliffs,
    engines,
    growth,
    memory,
    problems,
    run,
    timing,
    verdict,
)
from ibnn.lab.bench import layers as layer_section
from ibnn.lab.bench.machine import machine
from ibnn.lab.bench.problems import solve_exactly
from ibnn.lab.bench.tables import csv_text, markdown, save, text
from tests import oracle


class Clock:
    """A clock that moves only when told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def taking(self, *durations):
        remaining = list(durations)

        def work():
            self.now += remaining.pop(0) if len(remaining) > 1 else remaining[0]

        return work


def test_candidates_take_turns_and_the_first_round_is_not_counted():
    order = []
    names = {name: (lambda name=name: order.append(name)) for name in "abc"}
    times = timing.interleave(names, rounds=(2, 2), seconds=0)
    assert "".join(order) == "abcabcabc"
    assert [len(times[name].seconds) for name in "abc"] == [2, 2, 2]


def test_medians_and_ratios_are_those_of_the_counted_rounds():
    clock = Clock()
    work = {"a": clock.taking(100, 1, 9, 2), "b": clock.taking(100, 4, 4, 4)}
    times = timing.interleave(work, rounds=(3, 3), seconds=0, clock=clock)
    assert times["a"].seconds == (1, 9, 2)
    assert times["a"].median == 2
    assert times["a"].milliseconds == 2000
    assert timing.ratio(times, "b", "a") == 2
    assert times["b"].spread == 0


@pytest.mark.parametrize(("seconds", "expected"), [(0, 3), (35, 4), (1e9, 6)])
def test_rounds_end_with_the_time_but_not_before_the_fewest(seconds, expected):
    clock = Clock()
    times = timing.interleave({"a": clock.taking(10)}, (3, 6), seconds, clock)
    assert len(times["a"].seconds) == expected


@pytest.mark.parametrize("power", [1.0, 1.1, 2.0])
def test_the_exponent_of_a_power_is_found(power):
    units = [1e3, 1e4, 1e5, 1e6]
    assert growth.exponent(units, [3e-9 * d**power for d in units]) == pytest.approx(power)


def test_the_exponent_is_fitted_from_a_thousand_units_on_and_per_engine():
    rows = [{"units": d, "engine": "native", "seconds": d * 1.0} for d in (10**3, 10**4, 10**6)]
    rows += [{"units": 100, "engine": "native", "seconds": 1e9}]
    rows += [{"units": d, "engine": "portable", "seconds": d**2.0} for d in (10**3, 10**6)]
    assert growth.fitted(rows, "native") == pytest.approx(1)
    assert growth.fitted(rows, "portable") == pytest.approx(2)
    assert growth.fitted(rows[:1], "native") is None


@pytest.mark.parametrize(
    ("value", "aim", "state"),
    [
        (1.5, 1.5, "aim met"),
        (1.6, 1.5, "met"),
        (3.0, None, "met"),
        (3.1, 1.5, "not met"),
        (math.nan, 1.5, "not met"),
        (math.inf, 1.5, "not met"),
        (None, 1.5, "not measured"),
    ],
)
def test_a_number_is_judged_by_what_is_required_and_what_is_aimed_at(value, aim, state):
    assert verdict.judge(value, required=3.0, aim=aim) == state


def made_up_row(**changes):
    row = {"shape": "s", "lam": -0.2, "std": 0.1, "engine": "native", "hard": False}
    return {**row, "ratio_both": 1.0, "memory": 2.0, "error": 1e-7, **changes}


def test_the_verdict_is_that_of_the_worst_condition_and_says_where():
    rows = [
        made_up_row(),
        made_up_row(lam=0.08, ratio_both=3.5, memory=None),
        made_up_row(hard=True, ratio_both=5.0),
        made_up_row(engine="portable", ratio_both=7.0),
    ]
    found = {row["name"]: row for row in verdict.verdicts({"layers": rows})}
    native = found["layer forward+backward / Conv2d+ReLU, native"]
    assert (native["measured"], native["state"]) == (3.5, "not met")
    assert "worst of 2" in native["where"]
    assert "lam 0.08" in native["where"]
    assert found["layer forward+backward / Conv2d+ReLU, portable"]["state"] == "met"
    assert found["lam = -1, std 0.3 (hard), native"]["measured"] == 5.0
    assert found["extra memory, native"]["state"] == "aim met"
    assert found["first call, cached"]["state"] == "not measured"


def test_a_result_that_is_not_a_number_does_not_hide_behind_the_others():
    rows = [made_up_row(error=1e-9), made_up_row(error=math.nan), made_up_row(error=1.0)]
    found = {row["name"]: row["state"] for row in verdict.verdicts({"layers": rows})}
    assert found["error of z in the layers (float32)"] == "not met"


@pytest.mark.parametrize("sigma", ["tanh", "hardtanh", "arctan", "erf"])
@pytest.mark.parametrize("lam", [-1.0, 0.09])
def test_the_dense_reference_is_the_oracle_of_the_tests(sigma, lam):
    y = np.random.default_rng(0).normal(0, 0.3, 60)
    reference = solve_exactly(torch.from_numpy(y), lam, sigma=sigma)
    expected = oracle.solve_row(y, lam, 10.0, sigma=sigma)
    # both end where float64 does: residuals of 1e-14, times 1 / (1 - 0.09 * 10) = 10
    np.testing.assert_allclose(reference.z.numpy(), expected, atol=1e-11)
    g = torch.linspace(-1, 1, 60, dtype=torch.float64)
    jacobian = oracle.jacobian_row(expected, lam, 10.0, sigma=sigma)
    np.testing.assert_allclose(
        reference.gradient(g).numpy(), np.linalg.solve(jacobian, g.numpy()), atol=1e-9
    )
    assert reference.error(torch.from_numpy(expected) + 1e-3) == pytest.approx(1e-3, rel=1e-6)


def test_an_engine_is_used_inside_its_block_only(monkeypatch):
    from ibnn.engine.portable import rows as portable

    called = []
    original = portable.find_roots
    monkeypatch.setattr(portable, "find_roots", lambda *a: called.append(1) or original(*a))
    with engines.using("portable"):
        ibnn.implicit_bias(torch.linspace(-1, 1, 100), -0.2)
    assert len(called) == 1
    with engines.using("native" if engines.available("native") else "portable"):
        ibnn.implicit_bias(torch.linspace(-1, 1, 100), -0.2)
    assert len(called) == (1 if engines.available("native") else 2)


def test_weights_are_scaled_to_the_spread_asked_for():
    layers = problems.pair(problems.Shape(4, 2, 16, 3, 3), lam=-0.2, std=0.7)
    assert float(layers.y.var((-2, -1)).mean().sqrt()) == pytest.approx(0.7, rel=1e-4)


def test_the_peak_is_that_of_the_largest_moment_not_the_sum():
    size = 1 << 22

    def call():
        for _ in range(3):
            torch.ones(size)

    # the process's own mark is only to be trusted in a new process: malloc keeps what it can
    assert memory.measure(lambda: None, call).torch == 4 * size


def test_cells_keep_the_digits_that_matter():
    cells = [None, 3, True, 1.23456, 123.4, 1.2e-7, 0.0, math.nan]
    assert [text(c) for c in cells] == ["-", "3", "True", "1.23", "123", "1.2e-07", "0", "nan"]


def test_every_table_is_written(tmp_path):
    rows = [made_up_row(), made_up_row(extra=math.nan)]
    found = verdict.verdicts({"layers": rows})
    save(tmp_path / "new", machine(), {"quick": True}, {"layers": rows}, found, ["a note"])
    record = json.loads((tmp_path / "new" / "results.json").read_text())
    assert record["results"]["layers"][0]["ratio_both"] == 1.0
    assert record["results"]["layers"][1]["extra"] == "nan"
    assert record["machine"]["threads"] == torch.get_num_threads()
    assert "- a note" in (tmp_path / "new" / "tables.md").read_text()
    assert csv_text(rows).splitlines()[0].endswith(",extra")
    assert markdown("layers", rows).count("\n|") == 4


def test_a_cell_of_a_table_stays_text():
    table = markdown("growth", [{"units": "|z|", "engine": "<b> *own* my_engine"}])
    assert table.splitlines()[-1].startswith(r"| \|z\| | - | &lt;b&gt; \*own\* my\_engine | - |")


def test_an_unknown_section_or_engine_is_refused_by_name():
    with pytest.raises(ValueError, match="only is 'speed', expected one of layers"):
        BenchSettings(only="speed")
    with pytest.raises(ValueError, match="engine is 'fast', expected native"):
        BenchSettings(engine="fast")


def test_a_section_runs_is_shown_and_is_saved(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(growth, "TOTAL", 10_000)
    monkeypatch.setattr(growth, "SIZES", (100, 1000, 2000))
    results = run(BenchSettings(quick=True, engine="portable", only="growth"), tmp_path)
    assert {row["engine"] for row in results["growth"]} == {"portable"}
    assert all(row["seconds"] > 0 for row in results["growth"])
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"results.json", "tables.md", "growth.csv", "verdict.csv", "growth.png"}
    assert (tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")
    assert "Numbers to reach" in capsys.readouterr().out


def test_without_a_terminal_each_section_is_told_and_how_long_is_left(monkeypatch, capsys):
    runner = importlib.import_module("ibnn.lab.bench.run")

    clock = Clock()
    monkeypatch.setattr(runner.time, "perf_counter", clock)
    monkeypatch.setattr(BenchSettings, "sections", ("busy", "accuracy"))
    for section in ("busy", "accuracy"):
        module = importlib.import_module(f"ibnn.lab.bench.{section}")
        monkeypatch.setattr(module, "measure", lambda settings: setattr(clock, "now", 40.0) or [])
    runner.run(BenchSettings(quick=True), None)
    lines = capsys.readouterr().out.splitlines()
    assert "2 sections to measure: about 24 s on an idle machine" in lines
    assert any(line.endswith(" ...") for line in lines)
    # busy took 40 s, twice the 20 s it is known for, so accuracy will take twice 4 s
    assert any(line.endswith(" ... (8 s left)") for line in lines)


def test_every_cliff_compares_two_layers_that_agree_without_coupling(monkeypatch):
    for name in ("BELOW", "ABOVE"):
        monkeypatch.setattr(cliffs, name, 0.0)
    seen = {}
    monkeypatch.setattr(cliffs, "_both", lambda module, x, g: lambda: module(x))
    monkeypatch.setattr(cliffs, "_inference", lambda module, x: lambda: module(x))
    for cliff in cliffs.cliffs():
        small = replace(cliff, input=(1, *cliff.input[1:]), lam=0.0)
        for std in cliff.stds:
            calls = small.calls(std)
            assert torch.equal(calls["standard"](), calls["implicit"]()), cliff.name
            assert cliff.allowed(std) >= cliff.aim
        seen[cliff.name] = cliff
    assert len(seen) == len(list(cliffs.cliffs()))
    assert set(busy.CASES) <= set(seen)


def test_a_case_is_measured_in_a_process_of_its_own_and_judged(monkeypatch):
    made = {"case": "a", "std": 1.0, "required": 3, "aim": 2, "ratio": 2.5, "ms": 1.0}
    monkeypatch.setattr(
        cliffs, "_measured_with", lambda settings, threads: [{**made, "ms": threads or 9}]
    )
    (row,) = cliffs.measure(BenchSettings(quick=True))
    assert (row["state"], row["ms"], row["ms_wall"]) == ("met", 1, 9)


def test_spinning_processes_end_with_their_block():
    before = set(children())
    with busy.spinning(2):
        assert len(set(children()) - before) == 2
    assert not set(children()) - before


def children() -> list[str]:
    """The processes this one started, as Linux tells."""
    me = os.getpid()
    return Path(f"/proc/{me}/task/{me}/children").read_text().split()


def test_a_layer_is_compared_with_its_standard_twin():
    settings = BenchSettings(quick=True, engine="portable")
    shape = problems.Shape(2, 1, 8, 2, 3)
    (row,) = layer_section.time_layer(settings, shape, lam=-0.2, std=0.1)
    assert row["shape"] == "2x1x8x8->2"
    assert row["ratio_both"] == pytest.approx(row["ms_both"] / row["standard_ms_both"])
    assert row["error"] < 1e-5
    assert row["gradient_error"] < 1e-4
    assert row["converged"] == 1
