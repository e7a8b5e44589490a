"""Who is told of a run, and when; by name from the command line; TensorBoard as one of them."""

import json
import re
import subprocess
import sys
from copy import copy
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from ibnn.lab.runner import run_all
from ibnn.lab.training import (
    Listener,
    ListenerError,
    RunFolder,
    listener_names,
    make_listeners,
    register_listener,
    train,
)
from ibnn.lab.training.listeners import registry
from tests.lab.training.tiny import PLANE

TOLD: list[str] = []


class Diary(Listener):
    """A listener of somebody else's: this class and its registration are all there is to it."""

    def on_start(self, config, folder, epochs_done):
        TOLD.append(f"start {folder.name == config.identity()} {epochs_done}")

    def on_epoch(self, metrics):
        TOLD.append(f"{metrics.stage} {metrics.epoch}")

    def on_finish(self, result):
        TOLD.append(f"finish {result.epochs}")

    def close(self):
        TOLD.append("close")


@pytest.fixture(autouse=True)
def diary(monkeypatch):
    monkeypatch.setattr(registry, "_MAKERS", copy(registry._MAKERS))
    TOLD.clear()
    register_listener("diary", Diary)


def test_a_listener_is_told_of_start_epochs_and_end_in_order(tmp_path):
    train(PLANE, tmp_path, listeners=[Diary()])
    assert TOLD == [
        "start True 0",
        "warm-up 1",
        "training 1",
        "training 2",
        "training 3",
        "finish 3",
        "close",
    ]


def test_a_resumed_run_tells_where_it_goes_on_and_a_finished_one_nothing(tmp_path):
    class Stop(Diary):
        def on_epoch(self, metrics):
            super().on_epoch(metrics)
            if metrics.stage == "training":
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(PLANE, tmp_path, listeners=[Stop()], checkpoint_seconds=0)
    assert TOLD[-2:] == ["training 1", "close"]
    TOLD.clear()
    train(PLANE, tmp_path, listeners=[Diary()])
    assert TOLD[:2] == ["start True 2", "training 2"]
    TOLD.clear()
    train(PLANE, tmp_path, listeners=[Diary()])
    assert TOLD == []


@pytest.mark.parametrize("engine", ["inline", "ensemble"])
def test_engines_tell_each_run_to_a_listener_of_its_own(engine, tmp_path):
    run_all([PLANE, PLANE.replace(seed=1)], tmp_path, engine, log=["diary"])
    assert TOLD.count("start True 0") == TOLD.count("finish 3") == TOLD.count("close") == 2
    assert TOLD.count("training 2") == 2


def test_an_unknown_name_is_refused_before_anything_is_trained(tmp_path):
    with pytest.raises(ListenerError, match="log is 'wandb', expected one of tensorboard, diary"):
        run_all([PLANE], tmp_path, log=["wandb"])
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match=r"'diary' is registered already, by .*\.Diary"):
        register_listener("diary", Listener)
    assert listener_names() == ["tensorboard", "diary"]


READ = """
import json, sys, warnings
warnings.simplefilter("ignore")
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
found = EventAccumulator(sys.argv[1])
found.Reload()
values = {tag: [(e.step, e.value) for e in found.Scalars(tag)] for tag in found.Tags()["scalars"]}
print(json.dumps(values))
"""


def test_tensorboard_shows_what_the_metrics_say_once(tmp_path):
    pytest.importorskip("tensorboard")

    class Stop(Listener):
        def on_epoch(self, metrics):
            if metrics.stage == "training" and metrics.epoch == 2:
                raise KeyboardInterrupt

    config = PLANE.replace(neuron="implicit")
    logged = make_listeners(["tensorboard"])
    with pytest.raises(KeyboardInterrupt):  # no checkpoint: every epoch is trained again
        train(config, tmp_path, listeners=[*logged, Stop()], checkpoint_seconds=1e9)
    train(config, tmp_path, listeners=make_listeners(["tensorboard"]))
    run = RunFolder(tmp_path, config.identity())
    # In a process of its own: TensorBoard's reader imports what warns.
    read = [sys.executable, "-c", READ, str(run.path / "tensorboard")]
    found = json.loads(subprocess.run(read, check=True, capture_output=True, text=True).stdout)
    lines = run.metrics()
    assert found["accuracy/validation"] == [
        [step, pytest.approx(line.accuracy, abs=1e-6)]  # written in float32
        for step, line in enumerate(lines, 1)
    ]
    assert [step for step, _ in found["lam/layer 1"]] == [2, 3, 4]  # none in the warm-up
    assert "solver/steps" in found


def test_without_tensorboard_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ListenerError, match=r"pip install 'ibnn\[tensorboard\]'") as caught:
        make_listeners(["tensorboard"])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("tracker", ["wandb", "trackio", "mlflow"])
def test_the_trackers_of_the_page_hear_every_epoch_and_the_end(tracker, tmp_path, monkeypatch):
    page = Path(__file__).parents[3] / "docs" / "tracking.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
    (code,) = [block for block in blocks if f"import {tracker}\n" in block]
    stand_in = MagicMock()
    monkeypatch.setitem(sys.modules, tracker, stand_in)
    exec(compile(code, f"{page.name}, {tracker}", "exec"), {})
    train(PLANE, tmp_path, listeners=make_listeners([tracker]))
    calls = [name for name, _, _ in stand_in.mock_calls]
    logged = [name for name in calls if name.endswith((".log", ".log_metric"))]
    per_epoch = 2 if tracker == "mlflow" else 1
    assert len(logged) == per_epoch * 4  # the warm-up and three epochs
    assert calls[-1].endswith((".finish", ".set_terminated"))
