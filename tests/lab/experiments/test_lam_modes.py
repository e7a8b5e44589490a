"""The four ways to lam, and what each of them trains."""

from types import SimpleNamespace

import pytest

from ibnn.lab.experiments import ExperimentError
from ibnn.lab.experiments.lam_modes import GRID, PICKING_SEEDS, lam_mode
from ibnn.lab.training import RunConfig

IMPLICIT = RunConfig(dataset="digits", neuron="implicit", layers=2, seed=3, share=0.5)
CENTRAL = RunConfig(dataset="digits", neuron="implicit", layers=2)


def finished(*pairs):
    """Results as far as a mode reads them."""
    return {
        config.identity(): SimpleNamespace(lam=lam, best_accuracy=accuracy)
        for config, lam, accuracy in pairs
    }


def test_learnt_is_one_training():
    mode = lam_mode(None, CENTRAL)
    assert mode.runs(IMPLICIT, {}) == [IMPLICIT]
    assert mode.compared(IMPLICIT, {}) == IMPLICIT


def test_frozen_waits_for_the_lam_of_every_layer():
    mode = lam_mode("frozen", CENTRAL)
    assert mode.runs(IMPLICIT, {}) == [IMPLICIT]
    assert mode.compared(IMPLICIT, {}) is None
    second = mode.compared(IMPLICIT, finished((IMPLICIT, [0.01, 0.04], 0.9)))
    assert second.lam == (0.01, 0.04)
    assert not second.learn_lam
    assert second.replace(lam=0.0, learn_lam=True) == IMPLICIT  # nothing else is changed


def test_picked_never_sees_the_test_split():
    mode = lam_mode("picked", CENTRAL)
    trials = mode.runs(IMPLICIT, {})
    assert len(trials) == len(GRID) * PICKING_SEEDS
    assert all(run.hold_out == 0.2 and not run.learn_lam for run in trials)
    assert {run.lam for run in trials} == set(GRID)
    # 0.06 is best by its median, though not by its best seed
    scores = {0.06: (0.8, 0.8), 0.03: (0.2, 0.9)}
    results = finished(
        *((run, [run.lam], scores.get(run.lam, (0.1, 0.1))[run.seed]) for run in trials)
    )
    chosen = mode.compared(IMPLICIT, results)
    assert chosen.lam == 0.06
    assert chosen.hold_out == 0.0
    assert chosen.share == 0.5
    assert "test split picks nothing" in mode.about(results)


def test_a_number_is_kept():
    chosen = lam_mode("-0.2", CENTRAL).compared(IMPLICIT, {})
    assert chosen.lam == -0.2
    assert not chosen.learn_lam


def test_anything_else_is_refused():
    with pytest.raises(ExperimentError, match="expected learnt, frozen, picked or a number"):
        lam_mode("best", CENTRAL)
