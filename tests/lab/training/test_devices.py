"""Where a run is trained is recorded and may change; it never names the run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import ibnn
from ibnn.lab.cli import main
from ibnn.lab.runner import RunnerError, ray, run_all
from ibnn.lab.runner.options import RunnerOptions
from ibnn.lab.training import ConfigError, DeviceError, RunFolder, choose_device, train
from ibnn.lab.training.device import device_of_worker
from ibnn.lab.training.distributed import Group
from tests.lab.training.tiny import DIGITS, PLANE, assert_same_run

ONE_PROCESSOR = not torch.cuda.is_available() and not torch.backends.mps.is_available()


def test_the_names_of_devices():
    assert choose_device("cpu") == choose_device(torch.device("cpu")) == torch.device("cpu")
    assert choose_device("auto").type in ("cpu", "cuda", "mps", "xpu")
    with pytest.raises(DeviceError, match="device is 'gpu', expected auto, cpu, cuda"):
        choose_device("gpu")
    if ONE_PROCESSOR:
        with pytest.raises(DeviceError, match="device is 'cuda:1', but here is only cpu"):
            choose_device("cuda:1")


def test_a_device_that_is_not_here_is_told_before_any_run(tmp_path):
    for engine in ("inline", "processes"):
        with pytest.raises(DeviceError, match="device is 'gpu'"):
            run_all([PLANE], tmp_path, engine, device="gpu")
    assert not list(tmp_path.iterdir())


def test_workers_take_the_accelerators_in_turn(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [device_of_worker("auto", worker) for worker in range(3)] == [
        "cuda:0",
        "cuda:1",
        "cuda:0",
    ]
    assert device_of_worker("cuda", 1) == "cuda:1"
    assert device_of_worker("cuda:0", 1) == "cuda:0"
    assert device_of_worker("cpu", 1) == "cpu"


def test_tasks_of_a_cluster_ask_for_a_gpu_and_choose_it_there(tmp_path):
    """The machine that asks need not have one."""

    class Cluster:
        def __init__(self, **resources):
            self.resources = resources

        def cluster_resources(self):
            return self.resources

    with_one, without = Cluster(CPU=8, GPU=1), Cluster(CPU=8)
    assert [ray._gpus(with_one, name) for name in ("cpu", "mps", "cuda", "auto")] == [0, 0, 1, 1]
    assert [ray._gpus(without, name) for name in ("cpu", "cuda", "auto")] == [0, 1, 0]
    assert RunnerOptions(root=tmp_path, device="cuda").attempt(None)["device"] == "cuda"
    for engine, address in (("ray", "127.0.0.1:1"), ("slurm", None)):
        with pytest.raises(RunnerError, match="accelerator that is free: expected 'cuda'"):
            run_all([PLANE], tmp_path, engine, address=address, device="cuda:1")


def test_a_run_moves_between_devices_and_says_so(tmp_path, capsys, monkeypatch):
    """`cpu:0` is another name of the processor: the same numbers, told apart by name."""

    class Killed(BaseException):
        pass

    def die(metrics):
        if metrics.stage == "training":
            raise Killed

    config = DIGITS.replace(epochs=2)
    train(config, tmp_path / "whole")
    with pytest.raises(Killed):
        train(config, tmp_path / "moved", on_epoch=die, checkpoint_seconds=0)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_text(
        "\n".join(
            f"{name} = {value!r}".replace("'", '"')
            for name, value in vars(config).items()
            if value is not None and not isinstance(value, bool)
        )
    )
    with pytest.raises(SystemExit) as ended:
        main(["train", "--config", "run.toml", "--out", "moved", "--device", "cpu:0"])
    assert ended.value.code == 0
    assert "resuming on cpu:0; trained on cpu before" in capsys.readouterr().out
    whole, moved = (RunFolder(tmp_path / name, config.identity()) for name in ("whole", "moved"))
    assert_same_run(whole, moved)
    assert whole.result().environment["devices_used"] == ["cpu"]
    assert moved.result().environment["devices_used"] == ["cpu", "cpu:0"]
    assert moved.result().environment["device"] == "cpu:0"


def test_alone_nothing_is_exchanged():
    group, x, y = Group(), torch.rand(4, 2), torch.arange(4)
    assert group.part(x, y)[0] is x
    assert group.share("mine") == "mine"
    assert group.total(3, 0.5) == (3, 0.5)
    network = torch.nn.Linear(2, 2)
    assert group.wrap(network) is network
    second = Group(rank=1, size=3)
    assert second.part(x, y)[1].tolist() == [1]


@pytest.mark.slow
def test_two_processes_train_one_network(tmp_path):
    """Batch norm sees each part of a batch for itself, so the numbers are alike, not equal."""
    config = PLANE.replace(epochs=20, n_train=2000, n_test=500, lr_low=0.05, lr_high=0.1)
    alone = train(config, tmp_path / "alone")
    given = [
        "--dataset arrows --network perceptron --n-train 2000 --n-test 500 --epochs 20",
        "--warmup-epochs 1 --batch-size 64 --initialisation torch --lr-low 0.05 --lr-high 0.1",
    ]
    line = (
        f"-m torch.distributed.run --standalone --nproc-per-node 2 -m ibnn train {' '.join(given)}"
    )
    source = str(Path(ibnn.__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    for _ in range(2):  # the second time it is finished, and both processes say so
        done = subprocess.run(
            [sys.executable, *line.split(), "--out", str(tmp_path / "both")],
            capture_output=True,
            text=True,
            check=False,
            env=env,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("best ") == 1
    both = RunFolder(tmp_path / "both", config.identity()).result()
    assert both.environment["processes"] == 2
    assert both.n_train == alone.n_train
    assert len(RunFolder(tmp_path / "both", config.identity()).metrics()) == 21
    # 500 test points: three standard deviations of a difference of two accuracies near 0.85
    assert both.accuracy == pytest.approx(alone.accuracy, abs=0.07)


def test_mixed_precision_is_another_run_that_learns_as_well(tmp_path):
    config = DIGITS.replace(epochs=6, n_train=1000, n_test=300, lr_low=0.05, lr_high=0.1)
    mixed = config.replace(autocast="bfloat16")
    assert mixed.identity() != config.identity()
    assert config.replace(autocast=None).identity() == config.identity()
    usual, found = train(config, tmp_path), train(mixed, tmp_path)
    assert found.train_loss != usual.train_loss
    weights = RunFolder(tmp_path, mixed.identity()).latest().weights
    assert {value.dtype for value in weights.values()} <= {torch.float32, torch.int64, torch.uint8}
    # 300 test images: four standard deviations of the difference of two accuracies near 0.85
    assert found.accuracy == pytest.approx(usual.accuracy, abs=0.12)
    with pytest.raises(ConfigError, match="autocast is 'float8', expected 'bfloat16' or null"):
        config.replace(autocast="float8")
