"""Many runs: what is skipped, what fails alone, and workers that die."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from ibnn.engine.native import loader
from ibnn.lab.runner import Event, Outcome, RunnerError, Stopped, run_all
from ibnn.lab.training import RunConfig, RunFolder, train
from tests.lab.training.tiny import PLANE, assert_same_run

BROKEN = PLANE.replace(dataset="no-such-data")
RUNS = [PLANE, BROKEN, PLANE.replace(seed=1)]

# Long enough that a kill in the first epochs finds work left.
LONG = PLANE.replace(epochs=40)


def names(configs: list[RunConfig]) -> list[str]:
    return [config.identity() for config in configs]


def check_one_failure(outcome: Outcome, root: Path) -> None:
    assert sorted(outcome.done) == sorted(names([RUNS[0], RUNS[2]]))
    assert list(outcome.failed) == names([BROKEN])
    assert not outcome.ok
    text = outcome.failed[BROKEN.identity()]
    assert text.startswith("DataError: unknown dataset 'no-such-data'")
    assert "Traceback" in text
    folder = RunFolder(root, BROKEN.identity())
    assert folder.status() == "failed"
    assert folder.error() == text


@pytest.mark.parametrize("engine", ["inline", "processes"])
def test_a_failing_run_leaves_the_others_alone(engine, tmp_path):
    events: list[Event] = []
    outcome = run_all(RUNS, tmp_path, engine, workers=1, threads=2, on_event=events.append)
    check_one_failure(outcome, tmp_path)
    threads = 2 if engine == "processes" else torch.get_num_threads()
    result = RunFolder(tmp_path, PLANE.identity()).result()
    assert result.environment["threads"] == threads
    assert result.environment["threads_used"] == [threads]
    assert events[0].kind == "planned"
    assert len(events[0].planned) == 3
    kinds = [event.kind for event in events if event.config == PLANE]
    assert kinds == ["started"] + ["epoch"] * 4 + ["done"]
    done = next(event for event in events if event.kind == "done")
    assert done.result is not None
    assert done.result == RunFolder(tmp_path, done.result.identity).result()


def test_the_engine_is_compiled_before_workers_of_standard_networks_start(tmp_path, monkeypatch):
    # their convolutions are compiled too, and every result says whether the engine was there
    order: list[str] = []
    monkeypatch.setattr(loader, "available", lambda: bool(order.append("compiled")))
    run_all([PLANE], tmp_path, "processes", 1, on_event=lambda event: order.append(event.kind))
    assert order[:3] == ["planned", "compiled", "started"]
    assert order[-1] == "done"


def test_finished_runs_are_skipped_and_equal_ones_trained_once(tmp_path):
    train(PLANE, tmp_path)
    same = PLANE.replace(layers=7)  # no layers in a perceptron: the same run
    other = PLANE.replace(seed=1)
    outcome = run_all([PLANE, same, other, other], tmp_path)
    assert outcome.skipped == names([PLANE])
    assert outcome.done == names([other])
    assert str(outcome) == "1 run trained, 1 finished before"
    assert run_all([PLANE, other], tmp_path).done == []


def test_a_failed_run_is_tried_again_by_the_next_command(tmp_path):
    run = RunFolder(tmp_path, PLANE.identity())
    run.fail("OSError: no space left on device", "Traceback")
    assert run.status() == "failed"
    assert run_all([PLANE], tmp_path).ok
    assert run.status() == "finished"
    assert run.error() == ""


def test_divergence_is_a_failed_run_with_a_one_line_reason(tmp_path):
    config = PLANE.replace(lr_low=1e30, lr_high=1e30, clip=None)
    outcome = run_all([config, PLANE], tmp_path)
    assert outcome.done == names([PLANE])
    first, _, trace = RunFolder(tmp_path, config.identity()).error().partition("\n")
    assert first.startswith("DivergedError: ")
    assert "learning rate 1e+30" in first
    assert "Traceback" in trace


def killer(events: list[Event], root: Path, kills: int = 1):
    """An observer that kills the worker of a run as soon as there is a checkpoint."""
    pids: list[int] = []
    killed: list[int] = []

    def on_event(event: Event) -> None:
        events.append(event)
        if event.pid is not None:
            pids.append(event.pid)
        if event.kind == "epoch" and len(killed) < kills and pids[-1] not in killed:
            assert event.config is not None
            if RunFolder(root, event.config.identity()).checkpoint_file.exists():
                killed.append(pids[-1])
                os.kill(pids[-1], signal.SIGKILL)

    return on_event


def check_that_it_went_on(events: list[Event], root: Path, config: RunConfig = LONG) -> None:
    """The second worker began where the first had come to, and the end is as if it were one."""
    starts = [index for index, event in enumerate(events) if event.kind == "started"]
    assert len(starts) == 2
    first_after = next(event for event in events[starts[1] :] if event.kind == "epoch")
    assert first_after.metrics is not None
    assert first_after.metrics.stage == "training" or first_after.metrics.epoch > 1
    train(config, root / "whole")
    identity = config.identity()
    assert_same_run(RunFolder(root / "whole", identity), RunFolder(root / "killed", identity))


def test_a_killed_worker_is_replaced_and_its_run_goes_on(tmp_path):
    events: list[Event] = []
    outcome = run_all(
        [LONG],
        tmp_path / "killed",
        engine="processes",
        threads=torch.get_num_threads(),
        on_event=killer(events, tmp_path / "killed"),
        checkpoint_seconds=0,
    )
    assert outcome.done == names([LONG])
    assert [event.text for event in events if event.kind == "lost"] == ["killed by SIGKILL"]
    check_that_it_went_on(events, tmp_path)


def test_a_run_that_loses_every_worker_fails_in_the_end(tmp_path):
    outcome = run_all(
        [LONG],
        tmp_path,
        engine="processes",
        retries=0,
        on_event=killer([], tmp_path),
        checkpoint_seconds=0,
    )
    reason = outcome.failed[LONG.identity()].partition("\n")[0]
    assert reason == "RunnerError: lost its worker in attempt 1 of 1: killed by SIGKILL"
    assert RunFolder(tmp_path, LONG.identity()).status() == "failed"


def test_ctrl_c_ends_the_workers_and_says_how_to_go_on(tmp_path):
    pids: list[int] = []

    def on_event(event: Event) -> None:
        if event.kind == "started" and event.pid is not None:
            pids.append(event.pid)
        if event.kind == "epoch":
            raise KeyboardInterrupt

    with pytest.raises(Stopped, match=r"stopped with 1 run to go.*same command resumes"):
        run_all([LONG], tmp_path, engine="processes", on_event=on_event)
    assert pids
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert RunFolder(tmp_path, LONG.identity()).status() == "started"


def test_workers_do_not_outlive_a_killed_parent(tmp_path):
    script = (
        "import sys\n"
        "from ibnn.lab.runner import run_all\n"
        "from ibnn.lab.training import RunConfig\n"
        "tell = lambda event: event.pid and print(event.pid, flush=True)\n"
        "run_all([RunConfig.from_json(sys.argv[1])], sys.argv[2], 'processes', on_event=tell)\n"
    )
    forever = LONG.replace(epochs=100_000)
    parent = subprocess.Popen(
        [sys.executable, "-c", script, forever.to_json(), str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 30
    while alive(worker):
        assert time.monotonic() < deadline, "the worker is still there"
        time.sleep(0.1)


def alive(pid: int) -> bool:
    """Running, not merely waiting to be collected by whoever adopted it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"engine": "condor"}, "engine is 'condor', expected one of inline, processes"),
        ({"workers": 0}, "workers is 0, expected at least 1"),
        ({"engine": "ensemble", "device": "cpu:0"}, "device is 'cpu:0', but engine 'ensemble'"),
        ({"address": "auto"}, "address is 'auto', but only engines ray and slurm join"),
    ],
)
def test_wrong_arguments_are_named(arguments, message, tmp_path):
    with pytest.raises(RunnerError, match=message):
        run_all([PLANE], tmp_path, **arguments)


def test_without_ray_one_line_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(RunnerError, match=r"engine 'ray' needs Ray: pip install 'ibnn\[ray\]'"):
        run_all([PLANE], tmp_path, engine="ray")
