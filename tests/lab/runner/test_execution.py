"""From an experiment to its finished runs, with plans that name a user's own file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from ibnn.lab.runner import collect, execute, plan, unmeasured
from ibnn.lab.runner.finished import Run
from ibnn.lab.training import CheckpointError, Result, RunConfig, RunFolder, train, with_checksum

ENOUGH = 50  # times a plan is asked for in the test; an execution without end asks more often


def save(path: Path) -> str:
    """Stripes that lie or stand."""
    y = np.arange(40) % 2
    x = np.zeros((40, 8, 8), np.uint8)
    x[y == 0, ::2], x[y == 1, :, ::2] = 250, 250
    np.savez(path, x_train=x[:30], y_train=y[:30], x_test=x[30:], y_test=y[30:])
    return str(path)


class TwoStages:
    """A user's own experiment, which knows nothing of checksums: a second seed after the first."""

    name: ClassVar[str] = "two-stages"
    engine: ClassVar[str] = "inline"
    measure_version: ClassVar[int] = 1
    measured_as: ClassVar[str | None] = None
    renamed: ClassVar[Mapping[str, str]] = {}

    def __init__(self, path: str):
        self.first = RunConfig(dataset=path, channels=1, epochs=1, warmup_epochs=0, batch_size=10)
        self.second = self.first.replace(seed=1)
        self.plans = 0

    def check(self, settings: Any, /) -> None: ...

    def dataset(self, settings: Any, /) -> str:
        return self.first.dataset

    def plan(self, settings: Any, results: Mapping[str, Result], /) -> list[RunConfig]:
        self.plans += 1
        assert self.plans < ENOUGH, "the same runs are planned for ever"
        return [self.first, self.second] if self.first.identity() in results else [self.first]

    def measure(self, run: Run, /) -> dict[str, Any]:
        return {"images": len(run.examples().x_test)}


def test_a_plan_that_names_a_file_ends_and_finds_its_runs_again(tmp_path):
    experiment = TwoStages(save(tmp_path / "mine.npz"))
    both = [with_checksum(config) for config in (experiment.first, experiment.second)]
    names = [config.identity() for config in both]
    assert plan(experiment, None, tmp_path) == ([], both[:1])

    assert execute(experiment, None, tmp_path).done == names

    assert plan(experiment, None, tmp_path) == (both, [])
    assert unmeasured(experiment, None, tmp_path) == both
    runs, missing = collect(experiment, None, tmp_path)
    assert [run.result.identity for run in runs] == names
    assert [run.measured for run in runs] == [{"images": 10}] * 2
    assert missing == []
    assert unmeasured(experiment, None, tmp_path) == []


def test_what_was_measured_in_an_older_way_is_measured_again_and_told_to_be(tmp_path, monkeypatch):
    experiment = TwoStages(save(tmp_path / "mine.npz"))
    execute(experiment, None, tmp_path)
    before, _ = collect(experiment, None, tmp_path)
    monkeypatch.setattr(TwoStages, "measure_version", 2)
    monkeypatch.setattr(TwoStages, "measure", lambda self, run: {"images": 7})
    assert unmeasured(experiment, None, tmp_path) == [run.config for run in before]
    runs, _ = collect(experiment, None, tmp_path)
    assert [run.measured for run in runs] == [{"images": 7}] * 2
    assert unmeasured(experiment, None, tmp_path) == []


@pytest.mark.parametrize("kept", [0, 1, 3])  # warm-up, epochs 2, 4 and 5
def test_a_finished_run_that_lost_lines_of_its_metrics_is_told_and_made_whole(kept, tmp_path):
    own = {"epochs": 5, "warmup_epochs": 1, "validate_every": 2}
    experiment = TwoStages(save(tmp_path / "mine.npz"))
    config = with_checksum(experiment.first.replace(**own))
    train(config, tmp_path)
    folder = RunFolder(tmp_path, config.identity())
    run = Run(config, folder.result(), folder, {})
    assert [line.epoch for line in run.validations()] == [2, 4, 5]
    whole = folder.metrics_file.read_text()
    folder.metrics_file.write_text("".join(whole.splitlines(keepends=True)[:kept]))
    with pytest.raises(CheckpointError, match=r"metrics\.jsonl has . of 3 validations; delete .*"):
        run.validations()
    folder.result_file.unlink()  # as the message says
    train(config, tmp_path)
    assert folder.metrics_file.read_text() == whole
