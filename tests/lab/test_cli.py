"""The command line: what it does, and that whatever goes wrong is one line and an exit code."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import ibnn
from ibnn.engine.portable import PortableEngine
from ibnn.lab.cli import main
from ibnn.lab.runner import Event
from ibnn.lab.training import RunFolder, all_runs

TRAIN = "train --dataset digits --n-train 100 --n-test 50 --channels 1 --epochs 1"
SMOKE = "run boundary --preset smoke --seeds 1 --epochs 1"


@pytest.fixture
def call(capsys, tmp_path, monkeypatch):
    """Run a command in an empty folder: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def run(line: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            main(line.split())
        out, err = capsys.readouterr()
        assert isinstance(end.value.code, int)
        return end.value.code, out, err

    return run


def assert_refused(answer: tuple[int, str, str], *words: str) -> None:
    code, _, err = answer
    assert code == 2
    assert err.startswith("ibnn: ")
    assert err.count("\n") == 1
    for word in words:
        assert word in err


def test_version_and_help_with_an_example_for_every_command(call):
    assert call("--version") == (0, f"ibnn {ibnn.__version__}\n", "")
    commands = ["", "run", "train", "report", "data", "runs", "data list", "data get", "data check"]
    for command in [*commands, "runs list", "runs show", "runs clean"]:
        code, out, err = call(f"{command} --help")
        assert (code, err) == (0, "")
        assert "Example: ibnn" in out
    assert call("")[0] == 0


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("rnu", ["'rnu'"]),
        ("run bondary", ["unknown experiment 'bondary'", "did you mean 'boundary'"]),
        ("run boundary --preset huge", ["'huge'", "smoke, cpu, paper"]),
        ("run boundary --dataset mnist", ["'mnist'", "arrows, moons, circles, spirals"]),
        ("run boundary --engine fast", ["'fast'", "inline"]),
        ("run boundary --seeds 0", ["seeds is 0"]),
        ("run boundary --workers many", ["--workers"]),
        ("run boundary --engine inline --workers 0", ["workers is 0"]),
        ("run boundary --address 10.0.0.1:6379", ["only engines ray and slurm"]),
        ("run boundary --config none.toml", ["none.toml does not exist"]),
        ("train", ["ibnn: --dataset is missing"]),
        ("train --dataset digits --neuron curious", ["'curious'", "standard, implicit"]),
        ("train --dataset digits --lam a,b", ["--lam is 'a,b'"]),
        ("train --dataset digits --neuron implicit --lam 1,2", ["expected one value\n"]),
        ("train --dataset digts", ["did you mean 'digits'"]),
        ("train --dataset digits --lam 0.1", ["--lam has no effect", "neuron is 'standard'"]),
        ("train --dataset digits --hidden 9", ["--hidden has no effect", "network is 'ucn'"]),
        ("train --dataset digits --neuron implicit --window 3", ["--window", "'space'"]),
        ("train --dataset digits --adversarial-steps 3", ["adversarial_eps is 0"]),
        ("train --dataset digits --adversarial-eps 8", ["--adversarial-eps is 8", "at most 1"]),
        ("train --dataset digits --batch-size 1", ["batch_size is 1", "at least 2"]),
        ("train --dataset digits --neuron implicit --sigma tan", ["'tan'", "tanh"]),
        ("train --dataset digits --neuron implicit --solver foo", ["'foo'", "newton"]),
        (
            "train --dataset digits --neuron implicit --coupling window --window 4",
            ["kernel_size", "odd", "got 4"],
        ),
        ("train --dataset digits --hold-out 0.9999", ["holds out all"]),
        ("train --dataset arrows --network mlp --augmentation crop-flip", ["has no images"]),
        ("run capacity --seeds 7", ["seeds is 7, but capacity has its own"]),
        ("run capacity --first-seed 7", ["first seed is 7, but capacity has its own"]),
        ("run expressivity --channels 7", ["channels is 7, but expressivity has its own"]),
        ("run controls --channels 0", ["channels is 0", "at least 1"]),
        ("run boundary --first-seed -1", ["first seed is -1", "at least 0"]),
        ("run boundary --engine inline --workers 8 --dry-run", ["one run at a time"]),
        ("run boundary --workers 0 --dry-run", ["workers is 0"]),
        ("playground #lam=-0.5 --out page.html", ["expected no link"]),
        ("train --dataset kjv --network gpt --data empty", ["kjv is not there"]),
        ("data get digts", ["did you mean 'digits'"]),
        ("data check own.npz", ["own.npz"]),
        ("runs list", ["results is not a folder"]),
        ("runs clean", ["--failed"]),
        ("report .", ["has no report"]),
        ("report nowhere", ["nowhere is not a folder"]),
    ],
)
def test_bad_requests_are_one_line_and_leave_nothing(line, words, call, tmp_path):
    assert_refused(call(line), *words)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("group", ["runs", "data"])
def test_a_group_without_a_command_shows_its_commands(group, call):
    assert call(group) == call(f"{group} --help")


@pytest.mark.filterwarnings("default::ibnn.ThresholdWarning")
def test_a_warning_of_ours_is_one_line_said_once(call):
    above = "--neuron implicit --lam 0.5 --fix-lam"
    code, _, err = call(f"{TRAIN} {above}")
    told = [line for line in err.splitlines() if "threshold" in line]
    assert code == 0
    assert told == ["ibnn: lam=0.5 is above the threshold 0.1: z may not be the only solution"]
    assert "site-packages" not in err
    assert ".py" not in err


def test_a_page_that_cannot_be_written_is_named_as_it_was_given(call):
    assert_refused(call("playground --out nodir/page.html"), "nodir/page.html\n")


def test_debug_shows_where_an_error_comes_from(call):
    code, _, err = call("run bondary --debug")
    assert code == 2
    assert "Traceback" in err
    assert err.splitlines()[-1].startswith("ibnn: unknown experiment")


def test_a_folder_that_cannot_be_written_is_refused_before_training(call, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    assert_refused(call(f"{SMOKE} --out file/results"), "cannot write to file/results")
    assert_refused(call(f"{TRAIN} --out file"), "cannot write to file: expected a folder")


@pytest.mark.parametrize("line", [SMOKE, f"{SMOKE} --engine inline", TRAIN])
def test_a_full_disk_is_told_as_such(line, call, tmp_path, monkeypatch):
    def full(self, *_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(RunFolder, "save", full)
    code, _, err = call(f"{line} --out results")
    assert code == 2
    assert err.splitlines()[-1].startswith("ibnn: the disk is full")
    assert not list(tmp_path.rglob("result.json"))
    assert not list(tmp_path.rglob("report.html"))


def test_train_tells_every_epoch_and_runs_show_remembers_it(call):
    code, out, _ = call(f"{TRAIN} --neuron implicit --lam 0.02 --seed 3 --warmup-epochs 1")
    assert code == 0
    assert "warm-up epoch 1/1, val " in out
    assert "epoch 1/1, val " in out
    assert ", lam 0.0" in out
    assert " images/s" in out
    assert "parameters" in out.splitlines()[-1]
    (run,) = all_runs("results")
    assert run.config().seed == 3
    assert run.identity in call("runs list")[1]
    shown = call(f"runs show {run.identity[:6]}")[1]
    assert '"lam": 0.02' in shown
    assert "finished" in shown
    assert_refused(call("runs show zzz"), "no run in results")
    assert "would remove" in call(f"runs clean {run.identity} --dry-run")[1]
    assert run.path.exists()
    assert "removed" in call(f"runs clean {run.identity}")[1]
    assert not run.path.exists()
    assert call("runs clean --unfinished")[1] == "nothing to remove\n"


def test_runs_tell_bits_per_character_of_text(call):
    line = "train --dataset sums --network gpt --depth 1 --width 8 --heads 2 --epochs 1"
    said = call(f"{line} --n-train 32 --n-test 8")[1]
    bits = said.splitlines()[-1].partition("last ")[2].partition(",")[0]
    assert f"  {bits} bits  sums GPT" in call("runs list")[1]
    (run,) = all_runs("results")
    shown = call(f"runs show {run.identity}")[1]
    assert " pieces/s" in shown
    assert "images/s" not in shown


def test_a_folder_in_the_place_of_a_file_is_named(call, tmp_path):
    call(TRAIN)
    (run,) = all_runs("results")
    (tmp_path / "converted").mkdir()
    answer = call(f"convert {run.path} --lam -0.1 --out converted")
    assert_refused(answer, "--out: converted is a folder, expected the name of a file\n")
    assert_refused(call("playground --out converted"), "--out: converted is a folder")
    assert_refused(call("run boundary --config converted"), "--config: converted is a folder")


def test_a_dry_run_on_absent_data_tells_the_plan_and_downloads_nothing(call, tmp_path):
    code, out, err = call("run learning-speed --dataset mnist --data empty --dry-run")
    assert (code, err) == (0, "")
    assert "10 runs to train, 0 finished" in out
    assert "No estimate of the time: mnist is absent (ibnn data get mnist)." in out
    assert not list(tmp_path.iterdir())


def test_a_run_is_named_by_its_folder_too_and_never_by_nothing(call, capsys):
    call(TRAIN)
    (run,) = all_runs("results")
    assert call(f"runs show {run.path}")[1] == call(f"runs show {run.identity}")[1]
    with pytest.raises(SystemExit):
        main(["runs", "clean", ""])
    assert "no run in results begins with ''" in capsys.readouterr().err
    assert run.path.is_dir()
    assert call(f"runs clean {run.path}")[0] == 0
    assert not run.path.exists()


def test_an_empty_folder_is_said_to_have_no_runs(call, tmp_path):
    assert call(f"runs list --out {tmp_path}") == (0, f"no runs in {tmp_path}\n", "")


def test_a_misspelt_engine_is_told_before_any_work(call, monkeypatch):
    monkeypatch.setenv("IBNN_ENGINE", "nativ")
    assert_refused(call(f"{TRAIN} --neuron implicit"), "IBNN_ENGINE: engine='nativ' is not known")
    monkeypatch.setenv("IBNN_ENGINE", "portable")
    assert call("runs list --out .")[0] == 0


def test_an_engine_that_cannot_serve_says_why_and_is_no_bug(call, monkeypatch):
    monkeypatch.setenv("IBNN_ENGINE", "portable")
    monkeypatch.setattr(PortableEngine, "declines", lambda self, case: "it is Sunday")
    answer = call(f"{TRAIN} --warmup-epochs 0 --neuron implicit")
    assert_refused(answer, "ibnn: engine 'portable' cannot serve here: it is Sunday\n")


def test_a_damaged_report_is_named_where_there_is_no_other(call, tmp_path):
    (tmp_path / "experiment.json").write_text("{")
    assert_refused(call("report ."), "experiment.json cannot be used")


def test_an_export_does_not_replace_the_page_of_a_project(call, tmp_path):
    for file in ("results/one/experiment.json", "published/one/findings.json"):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_text("{}")
    (tmp_path / "README.md").write_text("mine")
    (tmp_path / "published" / "README.md").write_text("of an earlier export")
    assert_refused(call("report results --export ."), "has a README.md that is not of an export")
    assert (tmp_path / "README.md").read_text() == "mine"
    assert "README" not in call("report results --export published")[2]  # it goes on to the report


def test_settings_from_a_file_and_the_command_line_over_them(call, tmp_path):
    (tmp_path / "run.toml").write_text('preset = "smoke"\nseeds = 1\ndataset = "moons"\n')
    out = call("run boundary --config run.toml --dataset circles --dry-run")[1]
    assert "circles perceptron(3) standard seed 0" in out
    assert "6 runs to train, 0 finished" in out
    (tmp_path / "train.toml").write_text(
        'dataset = "digits"\nchannels = 1\nn-train = 100\nn_test = 50\nepochs = 9\nlam = [0.01]\n'
    )
    assert call("train --config train.toml --epochs 1 --warmup-epochs 0")[0] == 0
    (run,) = all_runs("results")
    assert (run.config().epochs, run.config().n_train) == (1, 100)
    (tmp_path / "train.toml").write_text('dataset = "digits"\nlog = ["nowhere"]\n')
    assert_refused(call("train --config train.toml"), "'nowhere'")
    (tmp_path / "train.toml").write_text("epochs = inf\n")
    assert_refused(call("train --dataset digits --config train.toml"), "epochs is inf")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('presett = "smoke"', ["'presett'", "did you mean 'preset'"]),
        ("seeds = true", ["seeds is True", "a whole number"]),
        ("out = 3", ["out is 3", "a text"]),
        ('log = "tensorboard"', ["log is 'tensorboard'", "a list of texts"]),
        ("preset = ", ["is not TOML"]),
    ],
)
def test_what_is_wrong_in_a_settings_file_is_named(text, words, call, tmp_path):
    (tmp_path / "own.toml").write_text(text)
    assert_refused(call("run boundary --config own.toml"), "own.toml", *words)


def test_a_failed_run_is_named_at_the_end_and_the_report_still_made(call, monkeypatch):
    from ibnn.lab.runner.ensemble import Ensemble

    usual = Ensemble.step

    def poisoned(self, loss, *rest):
        usual(self, loss, *rest)
        self.learnt["head.bias"].data[self.lam == -1] = float("nan")

    monkeypatch.setattr(Ensemble, "step", poisoned)
    code, out, err = call(f"{SMOKE} --out results")
    (failed,) = [run for run in all_runs("results") if run.status() == "failed"]
    assert code == 1
    assert "report: results/boundary-arrows/report.html" in out.replace(os.sep, "/")
    last = err.splitlines()[-1]
    assert last.startswith("ibnn: 1 failed: ")
    assert failed.identity in last
    assert "DivergedError" in last
    assert "the loss is not finite" in call(f"runs show {failed.identity}")[1]
    (failed.path / "config.json").write_text("{")  # damaged on top of it
    assert "its configuration cannot be read" in call("runs clean --failed")[1]
    assert not failed.path.exists()


def test_a_report_without_runs_does_not_keep_others_from_being_made(call, tmp_path):
    call(f"{SMOKE} --out results")
    (tmp_path / "results" / "aaa").mkdir()
    about = (tmp_path / "results/boundary-arrows/experiment.json").read_text()
    gone = about.replace('"arrows"', '"moons"').replace('"dataset": null', '"dataset": "moons"')
    (tmp_path / "results" / "aaa" / "experiment.json").write_text(gone)
    (tmp_path / "results/boundary-arrows/report.html").unlink()
    code, out, err = call("report results --export out")
    assert code == 2
    assert "no run of boundary is finished" in err
    assert out.count("report: ") == 1
    assert (tmp_path / "results/boundary-arrows/report.html").is_file()
    assert [path.name for path in (tmp_path / "out").iterdir() if path.is_dir()] == [
        "boundary-arrows"
    ]


def test_a_damaged_run_does_not_keep_the_reports_of_others_from_being_made(call, tmp_path):
    call(f"{SMOKE} --out results")
    damaged = all_runs("results")[0]
    call(f"{SMOKE} --dataset moons --out results")
    damaged.result_file.write_text("{")
    for page in tmp_path.rglob("report.html"):
        page.unlink()
    code, out, err = call("report results")
    assert code == 2
    assert "is damaged" in err
    assert out.count("report: ") == 1
    assert (tmp_path / "results/boundary-moons/report.html").is_file()


def test_ctrl_c_says_how_to_go_on(call, monkeypatch):
    import ibnn.lab.cli.progress as progress

    def interrupt(self, event: Event) -> None:
        if event.kind == "epoch":
            raise KeyboardInterrupt

    monkeypatch.setattr(progress.EnsembleDisplay, "__call__", interrupt)
    code, _, err = call(f"{SMOKE} --out results")
    assert code == 130
    assert err.count("\n") == 1
    assert "the same command resumes" in err


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_on_a_real_training(tmp_path):
    line = f"{TRAIN} --epochs 2000 --out results"
    child = subprocess.Popen(
        [sys.executable, "-m", "ibnn", *line.split()],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        # a suite started in the background ignores Ctrl-C, and its children would inherit that
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        env={**os.environ, "PYTHONPATH": str(Path(ibnn.__file__).parents[1])},
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.rglob("checkpoint.safetensors")) and time.monotonic() < deadline:
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert err == "ibnn: stopped; the same command resumes where it was\n"
