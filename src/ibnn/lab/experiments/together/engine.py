"""Which runs are trained in step, and how each of them ends."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path

from ibnn.lab.experiments.together.loop import train_in_step
from ibnn.lab.experiments.together.member import Member
from ibnn.lab.runner import Event, Outcome, Stopped
from ibnn.lab.runner.attempt import record
from ibnn.lab.runner.events import Emit
from ibnn.lab.training import RunConfig, RunFolder, examples
from ibnn.lab.training.split import fingerprint


def suits(config: RunConfig) -> bool:
    """Whether this run can be a member of an ensemble."""
    fixed = config.neuron == "standard" or not (config.learn_lam or config.learn_slope)
    usual = config.sigma == "tanh" and config.solver == "newton" and config.adjoint == "implicit"
    whole = config.share == 1 and not config.label_noise and not config.hold_out
    plain = whole and not config.adversarial_eps and not config.weight_decay
    known = config.network == "perceptron" and config.neuron in ("standard", "implicit")
    return known and fixed and usual and plain


def train_together(
    configs: Sequence[RunConfig],
    root: str | os.PathLike[str],
    on_event: Emit,
    data_root: str | os.PathLike[str] | None = None,
) -> Outcome:
    """Train the runs that are not finished, as `ibnn.lab.runner.run_all` would."""
    unsuited = [config.title() for config in configs if not suits(config)]
    if unsuited:
        raise ValueError(f"engine 'together' cannot train {unsuited[0]}")
    outcome = Outcome()
    waiting: list[Member] = []
    for config in {config.identity(): config for config in configs}.values():
        folder = RunFolder(root, config.identity())
        if folder.status() == "finished":
            outcome.skipped.append(config.identity())
            on_event(Event(kind="skipped", config=config))
        else:
            waiting.append(Member(config, folder))
    planned = tuple(member.config for member in waiting)
    on_event(Event(kind="planned", planned=planned, workers=max(1, len(waiting))))

    def end(member: Member, error: Exception | None) -> None:
        identity = member.config.identity()
        if error is None:
            outcome.done.append(identity)
            on_event(Event(kind="done", config=member.config, result=member.folder.result()))
        else:
            outcome.failed[identity] = text = record(Path(root), member.config, error)
            on_event(Event(kind="failed", config=member.config, text=text))

    try:
        for _, alike in groupby(sorted(waiting, key=Member.shape), key=Member.shape):
            members = list(alike)
            split = examples(members[0].config, data_root)
            with ExitStack() as locks:
                ready = []
                for member in members:
                    try:
                        member.begin(locks, fingerprint(split))
                    except OSError:
                        raise  # the disk is at fault, not the run
                    except Exception as error:
                        end(member, error)
                    else:
                        ready.append(member)
                        on_event(Event(kind="started", config=member.config))
                # After a kill in the middle of a checkpoint the members may be epochs apart.
                ready.sort(key=lambda member: member.first)
                for _, level in groupby(ready, key=lambda member: member.first):
                    for member, error in train_in_step(list(level), split, on_event):
                        end(member, error)
    except KeyboardInterrupt:
        left = len(waiting) - len(outcome.done) - len(outcome.failed)
        raise Stopped(outcome, left) from None
    return outcome
