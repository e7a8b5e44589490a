"""The training loop of `ibnn.lab.training.loop`, for all members of an ensemble at once."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ibnn.lab import data
from ibnn.lab.experiments.together.ensemble import Ensemble, losses
from ibnn.lab.experiments.together.member import Member
from ibnn.lab.runner import Event
from ibnn.lab.runner.events import Emit
from ibnn.lab.training import DivergedError, Metrics, triangle
from ibnn.lab.training.seeds import generator

CHECKPOINT_SECONDS = 10.0
VALIDATION_BATCH = 500


def train_in_step(
    members: list[Member], split: data.Dataset, on_event: Emit
) -> Iterator[tuple[Member, Exception | None]]:
    """Train members that stand at the same epoch; yields each as it ends, with what went wrong."""
    config, first = members[0].config, members[0].first
    last = config.warmup_epochs + config.epochs - 1
    weights, momentum = zip(*(member.state(split) for member in members), strict=True)
    ensemble = _ensemble(members, first, weights, momentum)
    due = time.monotonic() + CHECKPOINT_SECONDS
    for index in range(first, last + 1):
        clock = time.perf_counter()
        if index == config.warmup_epochs and index > first:
            weights = [ensemble.weights(i) for i in range(len(members))]
            ensemble = _ensemble(members, index, weights, [{} for _ in members])
        if index < config.warmup_epochs:
            stage, epoch, epochs = "warm-up", index + 1, config.warmup_epochs
            rate = config.lr_low
        else:
            stage, epoch, epochs = "training", index - config.warmup_epochs + 1, config.epochs
            rate = triangle(epoch - 1, epochs, config.lr_low, config.lr_high)

        images, right, loss_sum = 0, torch.zeros(()), torch.zeros(())
        for x, y in _batches(members, split, index):
            if len(x) == 1 < len(split.x_train):
                continue  # one example has no variance for batch normalisation
            logits, _ = ensemble(x, training=True)
            loss = losses(logits, y)
            ensemble.step(loss.mean(0), rate, config.momentum, config.clip)
            images += len(x)
            right = right + ((logits > 0) == (y > 0)).sum(0)
            loss_sum = loss_sum + loss.detach().sum(0)
        speed = images * len(members) / (time.perf_counter() - clock)
        finite = loss_sum.isfinite()

        if index == last or stage == "warm-up" or epoch % config.validate_every == 0:
            measured = _validate(ensemble, split)
            finite &= measured["loss"].isfinite()
            seconds = (time.perf_counter() - clock) / len(members)
            for i in finite.nonzero().flatten().tolist():
                implicit = members[i].neuron(index) == "implicit"
                solver = {
                    name: float(measured[name][i]) if implicit else None
                    for name in ("steps", "residual", "converged")
                }
                line = Metrics(
                    stage=stage,
                    epoch=epoch,
                    epochs=epochs,
                    accuracy=float(measured["accuracy"][i]),
                    loss=float(measured["loss"][i]),
                    train_accuracy=float(right[i]) / images,
                    train_loss=float(loss_sum[i]) / images,
                    learning_rate=rate,
                    lam=[float(ensemble.lam[i])] if implicit else [],
                    slope=[float(ensemble.slope[i])] if implicit else [],
                    seconds=seconds,
                    images_per_second=speed,
                    **solver,
                )
                members[i].add(line)
                on_event(Event(kind="epoch", config=members[i].config, metrics=line))

        if not bool(finite.all()):
            for i in (~finite).nonzero().flatten().tolist():
                yield members[i], DivergedError(f"{stage} epoch {epoch}: the loss is not finite")
            kept = finite.nonzero().flatten().tolist()
            if not kept:
                return
            members = [members[i] for i in kept]
            weights = [ensemble.weights(i) for i in kept]
            ensemble = _ensemble(members, index, weights, [ensemble.momentum(i) for i in kept])
        if index == last or time.monotonic() >= due:
            for i, member in enumerate(members):
                member.save(split, index, ensemble.weights(i), ensemble.momentum(i))
            due = time.monotonic() + CHECKPOINT_SECONDS

    for member in members:
        member.finish(split, len(members))
        yield member, None


def _ensemble(members: Sequence[Member], index: int, weights, momentum) -> Ensemble:
    """The networks of epoch `index`; in the warm-up lam is 0, a standard network."""
    acts = [member.neuron(index) == "implicit" for member in members]
    lam = [member.config.lam if on else 0.0 for member, on in zip(members, acts, strict=True)]
    numbers = [value[0] if isinstance(value, tuple) else value for value in lam]
    return Ensemble(weights, momentum, numbers, [member.config.slope for member in members])


def _batches(
    members: Sequence[Member], split: data.Dataset, index: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches (examples, networks, 2) and labels, each network in the order of its own seed."""
    config = members[0].config
    dtype = getattr(torch, config.dtype)
    seeds = sorted({member.config.seed for member in members})
    column = torch.tensor([seeds.index(member.config.seed) for member in members])
    orders = [generator(seed, "order", index) for seed in seeds]
    streams = [data.batches(split.x_train, split.y_train, config.batch_size, g) for g in orders]
    for parts in zip(*streams, strict=True):
        x = torch.stack([part[0] for part in parts], 1).flatten(2).to(dtype)
        y = torch.stack([part[1] for part in parts], 1)
        yield x[:, column], y[:, column]


@torch.no_grad()
def _validate(ensemble: Ensemble, split: data.Dataset) -> dict[str, Tensor]:
    """Per network: accuracy, loss, and how its solver fared."""
    networks = len(ensemble.lam)
    right, loss = torch.zeros(networks, dtype=torch.int64), torch.zeros(networks)
    steps, residual, solved = torch.zeros(networks), torch.zeros(networks), torch.zeros(networks)
    for x, y in data.batches(split.x_test, split.y_test, VALIDATION_BATCH):
        points = x.flatten(1).to(ensemble.lam.dtype)[:, None].expand(-1, networks, -1)
        labels = y[:, None].expand(-1, networks)
        logits, solution = ensemble(points)
        right += ((logits > 0) == (labels > 0)).sum(0)
        loss = loss + losses(logits, labels).sum(0)
        if solution is None:
            solved += len(x)
            continue
        steps = torch.maximum(steps, solution.steps.amax(0).to(steps.dtype))
        residual = torch.maximum(residual, solution.residual.amax(0).to(residual.dtype))
        solved += solution.converged.sum(0)
    count = len(split.x_test)
    return {
        "accuracy": right.double() / count,
        "loss": loss / count,
        "steps": steps,
        "residual": residual.nan_to_num(torch.inf).clamp(max=1e30),
        "converged": solved / count,
    }
