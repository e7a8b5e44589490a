"""Which runs are trained as one ensemble, and how each of them ends."""

from collections.abc import Sequence
from contextlib import ExitStack
from itertools import groupby

from ibnn.lab.data import DataError, Dataset
from ibnn.lab.runner.attempt import record as record_failure
from ibnn.lab.runner.ensemble.loop import train_ensemble
from ibnn.lab.runner.options import RunnerError, RunnerOptions
from ibnn.lab.runner.outcome import Emit, Event
from ibnn.lab.training import (
    Metrics,
    RunConfig,
    RunError,
    RunFolder,
    examples,
    make_listeners,
)
from ibnn.lab.training.listeners import CallOnEpoch
from ibnn.lab.training.recorder import Recorder
from ibnn.lab.training.split import fingerprint

# A checkpoint is a file for every member.
CHECKPOINT_SECONDS = 10.0
# What may differ between the networks of one ensemble.
_OWN = {"seed": 0, "neuron": "standard", "lam": 0.0, "slope": 10.0, "learn_lam": False}


def suits(config: RunConfig) -> bool:
    """Whether this run can be a member of an ensemble."""
    fixed = config.neuron == "standard" or not (config.learn_lam or config.learn_slope)
    usual = config.sigma == "tanh" and config.solver == "newton" and config.adjoint == "implicit"
    usual = usual and config.atol is config.rtol is config.max_steps is None
    whole = config.share == 1 and not config.label_noise and not config.hold_out
    plain = whole and not (config.adversarial_eps or config.weight_decay or config.autocast)
    plain = plain and config.schedule == "triangle" and config.optimizer == "sgd"
    plain = plain and config.augmentation == "none"
    known = config.network == "perceptron" and config.neuron in ("standard", "implicit")
    return known and fixed and usual and plain


def run(configs: Sequence[RunConfig], options: RunnerOptions, emit: Emit) -> None:
    """Train all, those alike at once; a run that fails does not stop the others."""
    unsuited = [config.title() for config in configs if not suits(config)]
    if unsuited:
        raise RunnerError(
            f"engine 'ensemble' cannot train {unsuited[0]}: it is for perceptrons with a fixed lam"
        )
    if options.device not in ("cpu", "auto"):
        raise RunnerError(f"device is {options.device!r}, but engine 'ensemble' trains on the cpu")
    for _, alike in groupby(sorted(configs, key=_shape), key=_shape):
        members = list(alike)
        try:
            split = _examples(members[0], options)
        except (DataError, RunError, RunnerError) as error:
            for config in members:
                text = record_failure(options.root, config, error)
                emit(Event(kind="failed", config=config, text=text))
            continue
        with ExitStack() as held:
            records = _begin(members, split, options, emit, held)
            # After a kill in the middle of a checkpoint the members may be epochs apart.
            records.sort(key=lambda record: record.first)
            for _, level in groupby(records, key=lambda record: record.first):
                for record, error in train_ensemble(list(level)):
                    text = record_failure(options.root, record.config, error) if error else ""
                    emit(Event(kind="failed" if text else "done", config=record.config, text=text))


def _examples(config: RunConfig, options: RunnerOptions) -> Dataset:
    """What the members train on; refused where their heads would have more than one output."""
    split = examples(config, options.data_root)
    if split.classes != 2:
        raise RunnerError(
            f"{config.dataset} has {split.classes} classes, but engine 'ensemble' is for two: "
            "train it with engine 'inline' or 'processes'"
        )
    return split


def _begin(
    configs: Sequence[RunConfig],
    split: Dataset,
    options: RunnerOptions,
    emit: Emit,
    held: ExitStack,
) -> list[Recorder]:
    """Take the folder of every run and find out how far it is; those that cannot are failed."""
    checksum = fingerprint(split)
    records: list[Recorder] = []
    for config in configs:

        def on_epoch(metrics: Metrics, config: RunConfig = config) -> None:
            emit(Event(kind="epoch", config=config, metrics=metrics))

        folder = RunFolder(options.root, config.identity())
        try:
            held.enter_context(folder.lock())
            record = Recorder(
                config,
                folder,
                split,
                checksum,
                listeners=[CallOnEpoch(on_epoch), *make_listeners(options.log)],
                checkpoint_seconds=max(CHECKPOINT_SECONDS, options.checkpoint_seconds)
                if options.checkpoint_seconds
                else 0.0,
            )
            records.append(held.enter_context(record))
        except OSError:
            raise  # the disk is at fault, not the run
        except Exception as error:
            text = record_failure(options.root, config, error)
            emit(Event(kind="failed", config=config, text=text))
        else:
            emit(Event(kind="started", config=config))
    return records


def _shape(config: RunConfig) -> str:
    """Equal for runs that can be trained in step."""
    return config.replace(**_OWN).to_json()
