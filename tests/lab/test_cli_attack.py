"""`ibnn attack`: from a run folder to a table, checks, JSON and a figure, or to one line."""

import re

import pytest

from ibnn.lab.attacks import Evaluation
from ibnn.lab.cli import main
from ibnn.lab.training import RunFolder, train
from tests.lab.training.tiny import DIGITS, PLANE, images


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> RunFolder:
    config = DIGITS.replace(neuron="standard", epochs=5, lr_high=0.1)
    root = tmp_path_factory.mktemp("attacked")
    train(config, root)
    return RunFolder(root, config.identity())


@pytest.fixture
def call(capsys, tmp_path, monkeypatch):
    """Run a command in an empty folder: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def do(*words: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            main([str(word) for word in words])
        out, err = capsys.readouterr()
        assert isinstance(end.value.code, int)
        return end.value.code, out, err

    return do


def test_help_has_an_example(call):
    code, out, err = call("attack", "--help")
    assert (code, err) == (0, "")
    assert "Example: ibnn attack" in out


def test_a_run_is_attacked_and_everything_is_kept(call, run, tmp_path):
    quick = ("--eps", "0.1", "--attacks", "pgd,square", "--quick", "--images", "30")
    code, out, err = call("attack", run.path, *quick, "--out", "found")
    assert code == 0
    assert re.fullmatch(
        r"2 attacks and the checks on 30 images: about .* in the network, less .* broken early",
        err.splitlines()[0],
    )
    assert "digits UCN(1,2) standard seed 0" in out
    for words in ("pgd-linf", "square-linf", "certified accuracy", "checks", "no check failed"):
        assert words in out
    kept = {path.name for path in (tmp_path / "found").iterdir()}
    assert kept == {"evaluation.json", "evaluation.txt", "evaluation.png"}
    found = Evaluation.from_json((tmp_path / "found" / "evaluation.json").read_text())
    assert (found.images, found.eps, found.norm) == (30, 0.1, "linf")
    assert (tmp_path / "found" / "evaluation.png").read_bytes().startswith(b"\x89PNG")
    assert found.text() in out


def test_results_go_into_the_run_unless_told_otherwise(call, run):
    options = ("--norm", "l2", "--attacks", "pgd", "--no-checks", "--images", "10")
    assert call("attack", run.path, "--eps", "0.5", *options)[0] == 0
    where = run.path / "attacks"
    assert (where / "l2-0.5-pgd-10-images-no-checks" / "evaluation.txt").is_file()
    assert RunFolder.at(run.path).status() == "finished"
    before = {path: path.read_bytes() for path in where.rglob("*.json")}
    assert call("attack", run.path, "--eps", "0.5", *options, "--quick", "--seed", "1")[0] == 0
    assert {path: path.read_bytes() for path in before} == before  # nothing takes their place
    assert len(list(where.rglob("*.json"))) == len(before) + 1


def test_attacks_that_need_implicit_layers_are_named_where_there_are_none(call, run):
    options = ("--eps", "0.1", "--no-checks", "--images", "5", "--quick")
    code, out, err = call("attack", run.path, *options, "--attacks", "pgd,transfer")
    assert code == 0
    assert "left out, for networks with implicit layers: transfer" in out
    assert err.startswith("1 attack on 5 images")
    code, out, err = call("attack", run.path, *options, "--attacks", "transfer,intermediate")
    assert (code, out) == (2, "")
    assert "has no implicit layers, which transfer" in err


def test_a_network_file_in_a_runs_folder_is_itself_and_not_the_run(call, run):
    file = run.path / "twin.safetensors"
    assert call("convert", run.path, "--lam", "-0.2", "--out", file)[0] == 0
    assert "converted to lam -0.2" in call("runs", "show", file)[1]
    assert "converted" not in call("runs", "show", run.path / "checkpoint.safetensors")[1]
    call("convert", file, "--standard", "--out", "back.safetensors")
    assert "lam" not in call("runs", "show", "back.safetensors")[1].partition("\n")[0]


def test_a_converted_network_is_attacked_as_a_run_is(call, run, tmp_path):
    assert call("convert", run.path, "--lam", "-0.2", "--out", "twin.safetensors")[0] == 0
    options = ("--eps", "0.05", "--attacks", "pgd", "--no-checks", "--images", "10")
    code, out, _ = call("attack", "twin.safetensors", *options)
    assert code == 0
    assert "digits UCN(1,2) standard seed 0, converted to lam -0.2" in out
    kept = tmp_path / "twin-attacks" / "linf-0.05-pgd-10-images-no-checks" / "evaluation.json"
    assert Evaluation.from_json(kept.read_text()).lam == pytest.approx([-0.2])
    code, out, _ = call("runs", "show", "twin.safetensors")
    assert code == 0
    assert "converted to lam -0.2" in out
    assert "lam -0.2, " in out
    assert "twin.safetensors  digits UCN(1,2)" in call("runs", "list", "--out", ".")[1]


def test_a_network_that_is_implicit_already_is_not_converted_again(call, run):
    call("convert", run.path, "--lam", "-0.2", "--out", "twin.safetensors")
    code, _, err = call("convert", "twin.safetensors", "--lam", "-0.1", "--out", "again")
    assert code == 2
    assert "nothing to convert" in err
    assert "is already implicit (lam -0.2)" in err
    assert "--standard makes it a standard network" in err
    assert "head" not in err
    assert call("convert", "twin.safetensors", "--standard", "--out", "back")[0] == 0
    code, _, err = call("convert", "twin.safetensors", "--standard", "--lam", "-1", "--out", "no")
    assert (code, err) == (2, "ibnn: --lam has no effect with --standard\n")


def test_a_converted_network_is_written_over_nothing_but_another_one(call, run, tmp_path):
    assert call("convert", run.path, "--out", "twin")[0] == 0
    assert call("convert", run.path, "--lam", "-0.3", "--out", "twin")[0] == 0
    (tmp_path / "notes.txt").write_text("mine")
    checkpoint = run.path / "checkpoint.safetensors"
    before = checkpoint.read_bytes()
    for out, words in ((checkpoint, "is the checkpoint of a run"), ("notes.txt", "no network")):
        code, _, err = call("convert", run.path, "--out", out)
        assert (code, err.count("\n")) == (2, 1)
        assert words in err
    assert checkpoint.read_bytes() == before
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_progress_is_told_without_a_terminal(call, run, monkeypatch):
    monkeypatch.setattr("ibnn.lab.progress.PLAIN_SECONDS", 0.0)
    options = ("--eps", "0.05", "--attacks", "pgd,square", "--no-checks", "--images", "10")
    _, _, err = call("attack", run.path, *options)
    lines = err.splitlines()
    assert lines[1] == "0 %: pgd-linf"
    assert re.fullmatch(r"\d+ %: square-linf, \d+ s left", lines[2])
    assert lines[-1] == "100 %: done, 0 s left"


def test_a_device_that_is_not_here_is_one_line(call, run):
    for name, words in (
        ("cuda:7", "but here is only cpu"),
        ("quantum", "expected auto, cpu, cuda"),
    ):
        code, _, err = call("attack", run.path, "--eps", "0.1", "--device", name)
        assert code == 2
        assert f"device is '{name}'" in err
        assert words in err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--eps", "0.1", "--attacks", "pdg"), "attacks is 'pdg', expected one of standard"),
        (("--eps", "0.1", "--norm", "l1"), "norm is 'l1', expected one of linf, l2"),
        (("--eps", "8"), "--eps is 8, expected at most 1: pixels are in [0, 1]"),
        (("--eps", "-1"), "eps is -1.0, expected a radius of 0 or more"),
        (("--eps", "0.1", "--images", "0"), "--images"),
        ((), "--eps"),
    ],
)
def test_a_wrong_option_is_one_line(call, run, words, expected):
    code, _, err = call("attack", run.path, *words)
    assert code == 2
    assert err.startswith("ibnn: ")
    assert err.count("\n") == 1
    assert expected in err


def test_what_is_no_run_or_has_no_network_is_one_line(call, tmp_path):
    code, _, err = call("attack", "nowhere", "--eps", "0.1")
    assert code == 2
    assert "nowhere does not exist, expected a run's folder" in err
    assert "is not a run folder" in call("attack", tmp_path, "--eps", "0.1")[2]
    folder = RunFolder(tmp_path, DIGITS.identity())
    folder.path.mkdir(parents=True)
    folder.config_file.write_text(DIGITS.to_json())
    code, _, err = call("attack", folder.path, "--eps", "0.1")
    assert code == 2
    assert "has no checkpoint yet" in err


def test_points_are_refused(call, tmp_path):
    train(PLANE.replace(epochs=1), tmp_path)
    path = RunFolder(tmp_path, PLANE.replace(epochs=1).identity()).path
    code, _, err = call("attack", path, "--eps", "0.1")
    assert code == 2
    assert "arrows has points (shape (2,)), expected images in [0, 1]" in err


def test_data_that_is_not_there_is_one_line(call, tmp_path):
    config = DIGITS.replace(dataset="kjv", epochs=1, warmup_epochs=0, neuron="standard")
    train(config, tmp_path, dataset=images())
    path = RunFolder(tmp_path, config.identity()).path
    code, _, err = call("attack", path, "--eps", "0.1", "--data", "empty")
    assert code == 2
    assert "kjv is not there" in err
