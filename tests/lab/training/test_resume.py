"""Killed at any moment, a run goes on and ends with the numbers of one that was not."""

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ibnn.lab import data
from ibnn.lab.training import CheckpointError, RunFolder, train
from tests.lab.training.tiny import DIGITS, PLANE, assert_same_run, numbers

SCRIPT = """
import sys
import torch
from ibnn.lab.training import RunConfig, train
from tests.lab.training.tiny import images
dataset = images()
torch.optim.SGD([torch.zeros(1)])  # the first optimizer imports for a second
print("ready", flush=True)
train(RunConfig.from_json(sys.argv[1]), sys.argv[2], dataset=dataset, checkpoint_seconds=0)
"""


class Killed(BaseException):
    """Stands for a SIGKILL at an exact place in the code."""


def folder(root: Path, config) -> RunFolder:
    return RunFolder(root, config.identity())


def start(config, root: Path) -> "subprocess.Popen[str]":
    child = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, config.to_json(), str(root)],
        stdout=subprocess.PIPE,
        text=True,
        # Without the compiled engine: a kill while it is being compiled is another story.
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "IBNN_NATIVE": "0"},
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


def to_the_end(config, root: Path) -> None:
    """Let a child finish the run."""
    child = start(config, root)
    assert child.stdout is not None
    child.stdout.close()
    assert child.wait() == 0


def epochs_done(run: RunFolder) -> int:
    latest = run.latest()
    return latest.epochs_done if latest is not None else 0


def kill_and_resume(config, tmp_path: Path, kills: int, seed: int) -> None:
    """Kill `kills` children, each at a random moment after it has come farther than the last."""
    to_the_end(config, tmp_path / "whole")
    whole, run = folder(tmp_path / "whole", config), folder(tmp_path / "killed", config)
    epoch = whole.result().seconds / config.epochs
    moments = random.Random(seed)
    killed, reached = 0, 0
    while killed < kills:
        child = start(config, tmp_path / "killed")
        while child.poll() is None and epochs_done(run) <= reached:
            time.sleep(0.01)
        time.sleep(moments.uniform(0, 2 * epoch))
        child.kill()
        assert child.stdout is not None
        child.stdout.close()
        if child.wait() == 0:  # it was faster: begin again
            assert_same_run(whole, run)
            shutil.rmtree(tmp_path / "killed")
            reached = 0
            continue
        assert child.returncode == -signal.SIGKILL
        killed, reached = killed + 1, epochs_done(run)
    to_the_end(config, tmp_path / "killed")
    assert_same_run(whole, run)


def test_three_kills_at_random_moments(tmp_path):
    kill_and_resume(DIGITS.replace(epochs=6), tmp_path, kills=3, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("neuron", ["standard", "implicit"])
def test_twenty_kills_at_random_moments(neuron, tmp_path):
    kill_and_resume(DIGITS.replace(epochs=60, neuron=neuron), tmp_path, kills=20, seed=1)


def test_a_kill_around_every_rename(tmp_path, monkeypatch):
    """Files change names only through os.replace: die before and after each one of a run."""
    train(PLANE, tmp_path / "whole", checkpoint_seconds=0)
    rename = os.replace
    place, finished = 0, False
    while not finished:
        for after in (False, True):
            calls = 0

            def dying(source, target, after=after, place=place):
                nonlocal calls
                calls += 1
                if after or calls != place + 1:
                    rename(source, target)
                if calls == place + 1:
                    raise Killed

            root = tmp_path / f"{place}{after}"
            monkeypatch.setattr(os, "replace", dying)
            try:
                train(PLANE, root, checkpoint_seconds=0)
                finished = True
            except Killed:
                pass
            monkeypatch.setattr(os, "replace", rename)
            train(PLANE, root, checkpoint_seconds=0)
            assert_same_run(folder(tmp_path / "whole", PLANE), folder(root, PLANE))
        place += 1
    assert place > 2 * 4  # four epochs with two renames each, and the single files


@pytest.mark.parametrize("config", [DIGITS, PLANE])
def test_a_kill_after_every_epoch(config, tmp_path):
    """Also between the warm-up and the training, where the neuron changes."""
    train(config, tmp_path / "whole", checkpoint_seconds=0)

    def die(metrics) -> None:
        raise Killed

    for _ in range(config.warmup_epochs + config.epochs):
        with pytest.raises(Killed):
            train(config, tmp_path / "killed", on_epoch=die, checkpoint_seconds=0)
    train(config, tmp_path / "killed", on_epoch=die, checkpoint_seconds=0)
    assert_same_run(folder(tmp_path / "whole", config), folder(tmp_path / "killed", config))


def killed_in_epoch(config, root: Path, epoch: int) -> RunFolder:
    """A run that died in the given epoch of its training."""

    def die(metrics) -> None:
        if metrics.stage == "training" and metrics.epoch == epoch:
            raise Killed

    with pytest.raises(Killed):
        train(config, root, on_epoch=die, checkpoint_seconds=0)
    return folder(root, config)


def test_a_torn_line_of_metrics_is_dropped(tmp_path):
    run = killed_in_epoch(PLANE, tmp_path, epoch=2)
    whole = numbers(run)
    with run.metrics_file.open("a") as file:
        file.write(run.metrics()[-1].to_line()[:40])
    assert numbers(run) == whole
    train(PLANE, tmp_path)
    train(PLANE, tmp_path / "whole")
    assert_same_run(run, folder(tmp_path / "whole", PLANE))


def test_metrics_ahead_of_the_checkpoint_are_taken_back(tmp_path):
    run = killed_in_epoch(PLANE, tmp_path, epoch=2)
    os.replace(run.previous_file, run.checkpoint_file)
    train(PLANE, tmp_path)
    assert [line.epoch for line in run.metrics()] == [1, 1, 2, 3]


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "header"])
def test_a_damaged_checkpoint_falls_back_to_the_one_before(damage, tmp_path):
    run = killed_in_epoch(PLANE, tmp_path, epoch=2)
    spoil(run.checkpoint_file, damage)
    train(PLANE, tmp_path)
    train(PLANE, tmp_path / "whole")
    assert_same_run(run, folder(tmp_path / "whole", PLANE))


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "header"])
def test_a_full_disk_after_a_fallback_leaves_the_good_checkpoint(damage, tmp_path, monkeypatch):
    run = killed_in_epoch(PLANE, tmp_path, epoch=2)
    spoil(run.checkpoint_file, damage)
    sync = os.fsync

    def full(descriptor: int) -> None:
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        if "checkpoint" in os.path.basename(name):
            raise OSError(errno.ENOSPC, "no space left on device")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    for _ in range(2):
        with pytest.raises(OSError, match="no space left"):
            train(PLANE, tmp_path, checkpoint_seconds=0)
    monkeypatch.setattr(os, "fsync", sync)
    train(PLANE, tmp_path)
    train(PLANE, tmp_path / "whole")
    assert_same_run(run, folder(tmp_path / "whole", PLANE))


def test_two_damaged_checkpoints_are_an_error_that_says_what_to_do(tmp_path):
    run = killed_in_epoch(PLANE, tmp_path, epoch=2)
    spoil(run.checkpoint_file, "flip")
    spoil(run.previous_file, "cut")
    with pytest.raises(CheckpointError, match=r"checkpoint.safetensors is damaged.*delete .*again"):
        train(PLANE, tmp_path)


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    run = killed_in_epoch(PLANE, tmp_path, epoch=2)
    other = killed_in_epoch(PLANE.replace(seed=1), tmp_path, epoch=2)
    shutil.copy(other.checkpoint_file, run.checkpoint_file)
    with pytest.raises(CheckpointError, match=f"is of run {other.identity}"):
        train(PLANE, tmp_path)


def test_a_changed_config_is_refused(tmp_path):
    run = killed_in_epoch(PLANE, tmp_path, epoch=2)
    run.config_file.write_text(PLANE.replace(seed=5).to_json())
    with pytest.raises(CheckpointError, match=r"config\.json describes run"):
        train(PLANE, tmp_path)


def test_other_data_under_the_same_name_is_refused(tmp_path):
    killed_in_epoch(PLANE, tmp_path, epoch=2)
    changed = data.load("arrows", None).with_label_noise(0.1, seed=0)
    with pytest.raises(CheckpointError, match="was started on other data"):
        train(PLANE, tmp_path, dataset=changed)


def test_a_damaged_result_is_named(tmp_path):
    train(PLANE, tmp_path)
    run = folder(tmp_path, PLANE)
    run.result_file.write_text("{")
    with pytest.raises(CheckpointError, match=r"result.json is damaged"):
        train(PLANE, tmp_path)


def test_a_digit_changed_in_a_result_does_not_pass(tmp_path):
    train(PLANE, tmp_path)
    run = folder(tmp_path, PLANE)
    text, accuracy = run.result_file.read_text(), run.result().accuracy
    assert str(accuracy) in text
    run.result_file.write_text(text.replace(str(accuracy), "0.999", 1))
    with pytest.raises(CheckpointError, match=r"result.json is damaged \(its checksum"):
        run.result()


def test_a_result_without_a_checksum_is_one_of_an_older_version(tmp_path):
    train(PLANE, tmp_path)
    run = folder(tmp_path, PLANE)
    found = run.result()
    older = json.loads(run.result_file.read_text())
    del older["sha256"]
    run.result_file.write_text(json.dumps(older))
    assert run.result() == found


def test_a_config_with_bad_bytes_is_one_clear_line(tmp_path):
    run = killed_in_epoch(PLANE, tmp_path, epoch=2)
    run.config_file.write_bytes(run.config_file.read_bytes()[:20] + b"\xff\xfe")
    for ask in (run.config, lambda: train(PLANE, tmp_path)):
        with pytest.raises(CheckpointError, match=r"config\.json is damaged") as caught:
            ask()
        assert "\n" not in str(caught.value)


def spoil(path: Path, damage: str) -> None:
    contents = bytearray(path.read_bytes())
    if damage == "cut":
        contents = contents[: len(contents) // 2]
    elif damage == "flip":
        contents[-3] ^= 1
    elif damage == "empty":
        contents = bytearray()
    else:
        contents[0] ^= 0xFF
    path.write_bytes(contents)
