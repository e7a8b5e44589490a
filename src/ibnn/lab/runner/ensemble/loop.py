"""The training loop of `ibnn.lab.training.loop`, for all members of an ensemble at once."""

import time
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from ibnn.lab import data
from ibnn.lab.runner.ensemble.networks import Ensemble, losses
from ibnn.lab.training import DivergedError, build_network
from ibnn.lab.training.epochs import epochs, neuron_of
from ibnn.lab.training.recorder import Recorder
from ibnn.lab.training.seeds import generator
from ibnn.lab.training.validation import BATCH


def train_ensemble(members: list[Recorder]) -> Iterator[tuple[Recorder, Exception | None]]:
    """Train runs that stand at the same epoch; yields each as it ends, with what went wrong."""
    config, split, first = members[0].config, members[0].split, members[0].first
    weights, momentum = zip(*map(_state, members), strict=True)
    ensemble = _ensemble(members, first, weights, momentum)
    last_line = time.perf_counter()
    for epoch in epochs(config, first):
        clock = time.perf_counter()
        if epoch.switches:
            weights = [ensemble.weights(i) for i in range(len(members))]
            ensemble = _ensemble(members, epoch.index, weights, [{} for _ in members])

        images, right, loss_sum = 0, torch.zeros(()), torch.zeros(())
        for x, y in _batches(members, epoch.index):
            if len(x) == 1 < len(split.x_train):
                continue  # one example has no variance for batch normalization
            logits, _ = ensemble(x, training=True)
            loss = losses(logits, y)
            ensemble.step(loss.mean(0), epoch.rate, config.momentum, config.clip)
            images += len(x)
            right = right + ((logits > 0) == (y > 0)).sum(0)
            loss_sum = loss_sum + loss.detach().sum(0)
        speed = images * len(members) / (time.perf_counter() - clock)
        finite = loss_sum.isfinite()

        if epoch.validated:
            measured = _validate(ensemble, split)
            finite &= measured["loss"].isfinite()
            now = time.perf_counter()
            seconds, last_line = (now - last_line) / len(members), now
            for i in finite.nonzero().flatten().tolist():
                implicit = neuron_of(members[i].config, epoch.index) == "implicit"
                solver = {
                    name: float(measured[name][i]) if implicit else None
                    for name in ("steps", "residual", "converged")
                }
                members[i].add(
                    epoch.metrics(
                        accuracy=float(measured["accuracy"][i]),
                        loss=float(measured["loss"][i]),
                        train_accuracy=float(right[i]) / images,
                        train_loss=float(loss_sum[i]) / images,
                        lam=[float(ensemble.lam[i])] if implicit else [],
                        slope=[float(ensemble.slope[i])] if implicit else [],
                        seconds=seconds,
                        images_per_second=speed,
                        **solver,
                    )
                )

        if not bool(finite.all()):
            for i in (~finite).nonzero().flatten().tolist():
                yield members[i], DivergedError(f"{epoch}: the loss is not finite")
            kept = finite.nonzero().flatten().tolist()
            if not kept:
                return
            members = [members[i] for i in kept]
            weights, momentum = zip(
                *((ensemble.weights(i), ensemble.momentum(i)) for i in kept), strict=True
            )
            ensemble = _ensemble(members, epoch.index, weights, momentum)
        if members[0].due(epoch):
            for i, member in enumerate(members):
                neuron = neuron_of(member.config, epoch.index)
                network = build_network(member.config, split.image_shape, split.classes, neuron)
                own = {**network.state_dict(), **ensemble.weights(i)}  # lam is the config's
                member.save(epoch, own, ensemble.momentum(i), neuron)
        if epoch.validated:
            for member in members:
                member.publish()

    for member in members:
        network = build_network(member.config, split.image_shape, split.classes)
        member.finish(network, trained_together=len(members))
        yield member, None


def _state(member: Recorder) -> tuple[Mapping[str, Tensor], Mapping[str, Tensor]]:
    """Weights and momentum to go on with; the warm-up's momentum ends with it."""
    if member.latest is None:
        split = member.split
        network = build_network(member.config, split.image_shape, split.classes, "standard")
        return network.state_dict(), {}
    fresh = member.first == member.config.warmup_epochs
    return member.latest.weights, {} if fresh else member.latest.momentum


def _ensemble(members: Sequence[Recorder], index: int, weights, momentum) -> Ensemble:
    """The networks of epoch `index`; in the warm-up lam is 0, a standard network."""
    acts = [neuron_of(member.config, index) == "implicit" for member in members]
    lam = [member.config.lam if on else 0.0 for member, on in zip(members, acts, strict=True)]
    numbers = [value[0] if isinstance(value, tuple) else value for value in lam]
    return Ensemble(weights, momentum, numbers, [member.config.slope for member in members])


def _batches(members: Sequence[Recorder], index: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches (examples, networks, 2) and labels, each network in the order of its own seed."""
    config, split = members[0].config, members[0].split
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
    for x, y in data.batches(split.x_test, split.y_test, BATCH):
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
