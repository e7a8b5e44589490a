"""What version 0.1 stored is still read: runs, checkpoints, a converted network, a report."""

import shutil
from pathlib import Path

import pytest

from ibnn.lab import data
from ibnn.lab.cli import main
from ibnn.lab.models import implicit_layers
from ibnn.lab.training import RunConfig, RunFolder, all_runs, open_network, train, validate

STORED = Path(__file__).parents[1] / "data" / "runs_of_0.1"
STANDARD, IMPLICIT, KILLED = "eb0187e64482", "48df27720ef1", "fdd496a9ccbd"


@pytest.fixture
def old(tmp_path, monkeypatch):
    """A copy that may be written to, as the working folder."""
    shutil.copytree(STORED, tmp_path / "old")
    monkeypatch.chdir(tmp_path / "old")
    return Path(".")


def test_every_run_is_listed_with_its_state(old):
    states = {folder.identity: folder.status() for folder in all_runs(old)}
    assert states[STANDARD] == states[IMPLICIT] == "finished"
    assert states[KILLED] == "started"
    assert len(states) == 5


def test_the_same_description_still_names_the_same_run(old):
    for folder in all_runs(old):
        assert folder.config().identity() == folder.identity
    described = RunConfig(
        dataset="digits",
        neuron="implicit",
        channels=1,
        epochs=2,
        warmup_epochs=1,
        n_train=400,
        n_test=100,
        initialisation="torch",
        lr_low=0.05,
        lr_high=0.1,
    )
    assert described.identity() == IMPLICIT


@pytest.mark.parametrize(("identity", "accuracy"), [(STANDARD, 0.84), (IMPLICIT, 0.81)])
def test_result_metrics_and_network_agree(old, identity, accuracy):
    folder = RunFolder(old, identity)
    result, lines = folder.result(), folder.metrics()
    assert result.accuracy == lines[-1].accuracy == accuracy
    assert [line.stage for line in lines] == ["warm-up", "training", "training"]
    network, digits = folder.network(), data.load("digits").first(400, 100)
    assert validate(network, digits.x_test, digits.y_test).accuracy == accuracy
    lam = [float(layer.effective_lam.detach()) for layer in implicit_layers(network)]
    assert lam == pytest.approx(result.lam, abs=1e-6)  # float32


def test_a_run_that_was_killed_goes_on_to_the_end_it_would_have_had(old):
    """0.1 itself ended it with these numbers; the bits of a solve may differ between versions."""
    folder = RunFolder(old, KILLED)
    result = train(folder.config(), old)
    assert result.accuracy == pytest.approx(0.82, abs=0.011)  # one image of 100
    assert result.loss == pytest.approx(1.5145558, abs=1e-3)
    assert result.lam == pytest.approx([0.095], abs=1e-6)
    assert folder.status() == "finished"


def test_a_finished_run_is_not_trained_again(old):
    before = RunFolder(old, IMPLICIT).checkpoint_file.read_bytes()
    result = train(RunFolder(old, IMPLICIT).config(), old)
    assert result.accuracy == 0.81
    assert RunFolder(old, IMPLICIT).checkpoint_file.read_bytes() == before


def test_a_converted_network_is_opened(old):
    opened = open_network(old / "converted.safetensors")
    assert opened.title() == "digits UCN(1,1) standard seed 0, converted to lam -0.2"
    assert [
        round(float(layer.effective_lam.detach()), 6) for layer in implicit_layers(opened.network)
    ] == [-0.2]


@pytest.mark.parametrize(
    ("below", "folder", "page"),
    [
        (".", "learning-speed-digits", "learning-speed-digits/report.html"),
        ("runs", "../learning-speed-digits", "../learning-speed-digits/report.html"),
        ("learning-speed-digits", ".", "{old}/learning-speed-digits/report.html"),
    ],
)
def test_the_report_is_made_again_from_the_stored_runs(
    old, capsys, monkeypatch, below, folder, page
):
    old = old.resolve()
    monkeypatch.chdir(old / below)
    with pytest.raises(SystemExit) as ended:
        main(["report", folder])
    assert ended.value.code == 0
    said = capsys.readouterr()
    assert f"report: {page.format(old=old)}\n" in said.out
    assert (old / "learning-speed-digits" / "report.html").is_file()
    assert not (RunFolder(old, "a1a59d2a0db3").path / "lock").exists()  # nothing was trained


def test_one_damaged_run_does_not_hide_the_others(old, capsys):
    RunFolder(old, STANDARD).config_file.write_bytes(b"\xff\xfe")
    with pytest.raises(SystemExit) as ended:
        main(["runs", "list", "--out", "."])
    assert ended.value.code == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "damaged" in lines[STANDARD]
    assert "finished" in lines[IMPLICIT]
    assert "converted to lam -0.2" in lines["converted.safetensors"]
