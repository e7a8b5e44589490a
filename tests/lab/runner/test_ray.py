"""The same on a Ray cluster that is started for the occasion."""

import os
import signal

import pytest
import torch

from ibnn.lab.runner import Event, RunnerError, run_all
from tests.lab.runner.test_run_all import (
    LONG,
    RUNS,
    check_one_failure,
    check_that_it_went_on,
    killer,
)
from tests.lab.training.tiny import PLANE

# Ray leaves sockets and log files to the garbage collector when it shuts down.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(autouse=True)
def ray():
    return pytest.importorskip("ray")


def test_a_failing_run_leaves_the_others_alone(ray, tmp_path):
    outcome = run_all(RUNS, tmp_path, engine="ray", workers=2)
    check_one_failure(outcome, tmp_path)
    assert not ray.is_initialized()


def test_a_killed_worker_is_replaced_and_its_run_goes_on(tmp_path):
    events: list[Event] = []
    longer = LONG.replace(epochs=400)  # reports arrive late, the kill must still find it at work
    outcome = run_all(
        [longer],
        tmp_path / "killed",
        engine="ray",
        workers=1,
        threads=torch.get_num_threads(),
        on_event=killer(events, tmp_path / "killed"),
        checkpoint_seconds=0,
    )
    assert outcome.done == [longer.identity()]
    check_that_it_went_on(events, tmp_path, longer)


def test_a_cluster_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(RunnerError, match="no Ray cluster") as caught:
        run_all([PLANE], tmp_path, engine="ray", address="127.0.0.1:1")
    assert "\n" not in str(caught.value)


def test_ctrl_c_stops_the_cluster(ray, tmp_path):
    pids: list[int] = []

    def on_event(event: Event) -> None:
        if event.pid is not None:
            pids.append(event.pid)
        if event.kind == "epoch":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_all([LONG], tmp_path, engine="ray", workers=1, on_event=on_event)
    assert not ray.is_initialized()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
