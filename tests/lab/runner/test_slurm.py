"""Engine `slurm`, with submitit's local executor in place of a cluster."""

import sys

import pytest

from ibnn.engine.native import loader
from ibnn.lab.runner import Event, RunnerError, run_all
from ibnn.lab.runner import slurm as engine
from ibnn.lab.training import RunFolder, train
from tests.lab.training.tiny import PLANE, assert_same_run

pytest.importorskip("submitit")


@pytest.mark.slow
def test_jobs_give_the_runs_that_training_here_gives(tmp_path):
    configs = [PLANE, PLANE.replace(seed=1), PLANE.replace(lr_high=1e30, clip=None, seed=2)]
    events: list[Event] = []
    outcome = run_all(
        configs, tmp_path / "jobs", "slurm", 2, address="local", on_event=events.append
    )
    assert sorted(outcome.done) == sorted(config.identity() for config in configs[:2])
    assert outcome.failed[configs[2].identity()].startswith("DivergedError")
    for config in configs[:2]:
        train(config, tmp_path / "here")
        assert_same_run(
            RunFolder(tmp_path / "here", config.identity()),
            RunFolder(tmp_path / "jobs", config.identity()),
        )
        told = [e.metrics.epoch for e in events if e.kind == "epoch" and e.config == config]
        assert told == [1, 1, 2, 3]  # the warm-up first


def test_a_lost_job_is_submitted_again_and_then_given_up(tmp_path, monkeypatch):
    class Lost:
        """A job whose machine went away."""

        state = "NODE_FAIL"

        def done(self):
            return True

        def result(self):
            raise RuntimeError("no result")

        def cancel(self):
            """Nothing is left of it."""

    class Executor:
        submitted = 0

        def submit(self, *job):
            Executor.submitted += 1
            return Lost()

    monkeypatch.setattr(engine, "_executor", lambda options: Executor())
    compiled: list[int] = []  # jobs submitted by then
    monkeypatch.setattr(loader, "available", lambda: compiled.append(Executor.submitted))
    events: list[Event] = []
    outcome = run_all(
        [PLANE], tmp_path, "slurm", address="local", retries=2, on_event=events.append
    )
    assert Executor.submitted == 3
    assert compiled == [0]  # once, before any job
    assert [event.kind for event in events].count("lost") == 2
    reason = outcome.failed[PLANE.identity()]
    assert reason.startswith("RunnerError: lost its job: RuntimeError, state NODE_FAIL")


def test_every_epoch_is_told_though_a_job_ends_while_one_looks(tmp_path, monkeypatch):
    class Sudden:
        """Everything happens just before it is asked whether it has ended."""

        def done(self):
            train(PLANE, tmp_path)
            return True

        def result(self):
            return ""

    class Executor:
        def submit(self, *job):
            return Sudden()

    monkeypatch.setattr(engine, "_executor", lambda options: Executor())
    events: list[Event] = []
    assert run_all([PLANE], tmp_path, "slurm", address="local", on_event=events.append).ok
    told = [event.metrics.epoch for event in events if event.metrics is not None]
    assert told == [1, 1, 2, 3]  # the warm-up first
    assert events[-1].kind == "done"


def test_without_a_cluster_or_submitit_one_line_says_what_to_do(tmp_path, monkeypatch):
    with pytest.raises(RunnerError, match=r"no Slurm here .*address 'local'"):
        run_all([PLANE], tmp_path, "slurm")
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(RunnerError, match=r"pip install 'ibnn\[slurm\]'"):
        run_all([PLANE], tmp_path, "slurm")
