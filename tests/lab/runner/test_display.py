"""What a person sees: lines without a terminal, bars with one, and the time left."""

import io

import pytest
from rich.console import Console

from ibnn.lab import progress
from ibnn.lab.runner import Display, Event, TimeLeft, duration, run_all
from ibnn.lab.runner.ensemble.display import EnsembleDisplay
from ibnn.lab.training import Metrics
from tests.lab.training.tiny import PLANE


def metrics(epoch: int, seconds: float, stage: str = "training") -> Metrics:
    return Metrics(
        stage=stage,
        epoch=epoch,
        epochs=3,
        accuracy=0.861,
        loss=0.5,
        train_accuracy=0.9,
        train_loss=0.4,
        learning_rate=0.01,
        lam=[0.043],
        slope=[10.0],
        steps=4,
        residual=1e-6,
        converged=1.0,
        seconds=seconds,
        images_per_second=1000.0,
    )


def test_metrics_read_like_a_sentence():
    assert str(metrics(2, 1.0)) == "epoch 2/3, val 86.1 %, lam 0.043"


def test_time_left_counts_epochs_and_workers():
    runs = [PLANE.replace(seed=seed) for seed in range(4)]  # 1 + 3 epochs each
    left = TimeLeft(runs, workers=2)
    assert left.seconds() is None
    left.epoch(runs[0], metrics(1, 10.0))
    # two epochs of the first run and four of each other: 14 epochs of 10 s on two workers
    assert left.seconds() == pytest.approx(70)
    left.ended(runs[0])
    left.ended(runs[1])
    left.ended(runs[2])
    assert left.seconds() == pytest.approx(40)  # one run cannot be shared by two workers
    left.ended(runs[3])
    assert left.seconds() == 0


def test_the_time_of_a_line_is_that_of_all_epochs_since_the_one_before():
    run = PLANE.replace(epochs=7, validate_every=5)  # and one of warm-up
    left = TimeLeft([run])
    left.epoch(run, metrics(1, 10.0, "warm-up"))
    assert left.seconds() == pytest.approx(7 * 10)
    left.epoch(run, metrics(5, 50.0))
    assert left.seconds() == pytest.approx(2 * 10)
    left = TimeLeft([run, run.replace(seed=1)])
    left.epoch(run, metrics(7, 20.0))  # the last one, after two
    assert left.seconds() == pytest.approx(8 * 10)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.6, "1 min 0 s"), (125, "2 min 5 s"), (7300, "2 h 1 min")],
)
def test_durations_read_well(seconds, text):
    assert duration(seconds) == text


def test_without_a_terminal_there_are_plain_lines(tmp_path):
    out = io.StringIO()
    with Display(Console(file=out, width=200)) as display:
        run_all([PLANE, PLANE.replace(dataset="none")], tmp_path, on_event=display)
    lines = out.getvalue().splitlines()
    assert lines[0] == "2 runs to train, 1 at a time"
    assert lines[-2].startswith("[1/2] arrows perceptron(3) standard seed 0: best ")
    assert lines[-1].startswith("[2/2] none perceptron(3) standard seed 0: FAILED, DataError")
    assert "\x1b" not in out.getvalue()


def test_on_a_terminal_bars_show_every_run():
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=150)
    with Display(console) as display:
        display(Event(kind="planned", planned=(PLANE,)))
        display(Event(kind="started", config=PLANE))
        display(Event(kind="epoch", config=PLANE, metrics=metrics(2, 30.0)))
        display._bars.refresh()
    assert "val 86.1 %" in out.getvalue()
    assert "30 s left" in out.getvalue()


def test_one_line_tells_all_networks_of_an_ensemble(monkeypatch):
    monkeypatch.setattr(progress, "PLAIN_SECONDS", 0.0)
    clock = iter(range(0, 1000, 10))  # ten seconds between any two looks at it
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    out, runs = io.StringIO(), (PLANE, PLANE.replace(seed=1))
    with EnsembleDisplay(Console(file=out, width=200)) as display:
        display(Event(kind="planned", planned=runs))
        for line in (metrics(1, 1.0, "warm-up"), metrics(1, 1.0), metrics(2, 1.0)):
            for config in runs:
                display(Event(kind="epoch", config=config, metrics=line))
    begun, *lines = [line.partition(", ") for line in out.getvalue().splitlines()]
    assert begun[0] == "2 networks to train as one ensemble"
    # the epoch of the warm-up counts
    assert [line[0] for line in lines] == [f"2 networks: epoch {done}/4" for done in (1, 2, 3)]
    assert [bool(line[2]) for line in lines] == [False, True, True]
    assert lines[-1][2].endswith(" s left")
