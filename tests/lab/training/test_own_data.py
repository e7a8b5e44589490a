"""A run on a user's own file is about its contents: never another dataset's numbers."""

from pathlib import Path

import numpy as np
import pytest

from ibnn.lab.runner import run_all
from ibnn.lab.training import (
    CheckpointError,
    RunConfig,
    RunFolder,
    examples,
    train,
    with_checksum,
)

SETTINGS = {
    "channels": 1,
    "epochs": 2,
    "warmup_epochs": 0,
    "initialisation": "torch",
    "lr_low": 0.1,
    "lr_high": 0.1,
}


def save(path: Path, learnable: bool) -> str:
    """Stripes that lie or stand, labelled as such, or at random."""
    path.parent.mkdir(parents=True, exist_ok=True)
    y = np.arange(400) % 2
    x = np.zeros((400, 8, 8), np.uint8)
    x[y == 0, ::2], x[y == 1, :, ::2] = 250, 250
    if not learnable:
        y = np.random.RandomState(0).randint(0, 2, 400)
    np.savez(path, x_train=x[:300], y_train=y[:300], x_test=x[300:], y_test=y[300:])
    return str(path)


def own(path: str, **changes) -> RunConfig:
    return RunConfig(dataset=path, **(SETTINGS | changes))


def test_a_file_of_the_same_name_in_another_folder_is_another_run(tmp_path, monkeypatch):
    for folder, learnable in (("a", True), ("b", False)):
        save(tmp_path / folder / "mine.npz", learnable)
    found = {}
    for folder in ("a", "b"):
        monkeypatch.chdir(tmp_path / folder)
        found[folder] = train(own("mine.npz"), tmp_path / "out")
    assert found["a"].identity != found["b"].identity
    assert found["a"].accuracy == 1.0
    assert found["b"].accuracy < 0.9


def test_an_edited_file_is_another_run(tmp_path):
    path = save(tmp_path / "mine.npz", learnable=False)
    before = train(own(path), tmp_path)
    save(tmp_path / "mine.npz", learnable=True)
    after = train(own(path), tmp_path)
    assert (before.accuracy < 0.9, after.accuracy) == (True, 1.0)


def test_the_same_file_elsewhere_is_the_same_run(tmp_path):
    first = with_checksum(own(save(tmp_path / "here" / "mine.npz", learnable=True)))
    second = with_checksum(own(save(tmp_path / "there" / "yours.npz", learnable=True)))
    assert first.identity() == second.identity()
    assert first.title() == "mine.npz UCN(1,1) standard seed 0"
    assert with_checksum(first) == first
    outcome = run_all([own(first.dataset), own(second.dataset)], tmp_path / "out")
    assert outcome.done == [first.identity()]


def test_what_is_looked_at_later_is_what_was_trained_on(tmp_path):
    path = save(tmp_path / "mine.npz", learnable=True)
    result = train(own(path), tmp_path)
    config = RunFolder(tmp_path, result.identity).config()
    assert len(examples(config).x_test) == 100
    save(tmp_path / "mine.npz", learnable=False)
    with pytest.raises(CheckpointError, match=r"mine\.npz has changed: its checksum is"):
        examples(config)


def test_runs_of_a_dataset_by_name_and_older_runs_of_a_path_keep_their_identity():
    digits = RunConfig(dataset="digits", epochs=3)
    assert with_checksum(digits) is digits
    # What 0.1 gave this config: such a run is still read by its folder's name.
    assert own("mine.npz").identity() == "04e15e9e3fe5"
