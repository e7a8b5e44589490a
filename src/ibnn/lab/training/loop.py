"""Training one run, top to bottom: data, warm-up, switch of neuron, epochs, result.

Warm-up epochs train a standard network at the lowest learning rate; the run's own network then
starts from its weights with a fresh optimizer and schedule. A standard run does the same, so
both neurons are treated alike. Everything random follows from the seed, the purpose and the
epoch (see `seeds`), so a run that was killed goes on from its checkpoint as if nothing happened.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict

import torch
from torch import Tensor, nn

from ibnn.lab import data
from ibnn.lab.models import lam_layers
from ibnn.lab.training.adversarial import harden
from ibnn.lab.training.checkpoint import Checkpoint
from ibnn.lab.training.config import RunConfig
from ibnn.lab.training.errors import CheckpointError, DivergedError
from ibnn.lab.training.folder import RunFolder, load_weights
from ibnn.lab.training.metrics import Metrics
from ibnn.lab.training.network import build_network
from ibnn.lab.training.objective import loss_of, predict
from ibnn.lab.training.optimizer import load_momentum, make_optimizer, momentum_of
from ibnn.lab.training.result import Result, summarise
from ibnn.lab.training.schedule import triangle
from ibnn.lab.training.seeds import generator
from ibnn.lab.training.split import fingerprint, load_dataset, prepare, with_checksum
from ibnn.lab.training.validation import validate


def train(
    config: RunConfig,
    root: str | os.PathLike[str],
    *,
    data_root: str | os.PathLike[str] | None = None,
    dataset: data.Dataset | None = None,
    on_epoch: Callable[[Metrics], None] | None = None,
    checkpoint_seconds: float = 1.0,
) -> Result:
    """Train the run in `<root>/runs/<identity>`, from its last checkpoint if there is one.

    Args:
        dataset: the dataset as loaded, to spare loading it again; the config's share, noise and
            limits are applied here.
        on_epoch: called after every validation.
        checkpoint_seconds: a checkpoint follows each epoch, but not sooner than this after the
            one before; the last epoch always has one.

    Raises:
        DivergedError: the loss is no longer finite.
        RunLockedError: another process is training this run.
    """
    config = with_checksum(config) if dataset is None else config
    folder = RunFolder(root, config.identity())
    if folder.status() == "finished":
        return folder.result()
    whole = dataset if dataset is not None else load_dataset(config, data_root)
    with folder.lock():
        if folder.status() == "finished":
            return folder.result()
        latest = folder.begin(config)
        split = prepare(config, whole)
        return _train(config, folder, split, latest, on_epoch, checkpoint_seconds)


def _train(
    config: RunConfig,
    folder: RunFolder,
    split: data.Dataset,
    latest: Checkpoint | None,
    on_epoch: Callable[[Metrics], None] | None,
    checkpoint_seconds: float,
) -> Result:
    examples = fingerprint(split)
    if latest is not None and latest.data != examples:
        raise CheckpointError(
            f"run {folder.identity} was started on other data than {config.dataset} is now; "
            f"delete {folder.path} to train it again"
        )
    dtype = getattr(torch, config.dtype)
    first = latest.epochs_done if latest else 0
    last = config.warmup_epochs + config.epochs - 1
    metrics = list(latest.metrics) if latest else []
    threads = sorted({torch.get_num_threads(), *(latest.threads if latest else ())})
    network, optimizer = _start(config, split, first, latest.weights if latest else {})
    if latest is not None and first != config.warmup_epochs:
        load_momentum(network, optimizer, latest.momentum)

    checkpoint_due = time.monotonic() + checkpoint_seconds
    last_line = time.perf_counter()
    with folder.metrics_file.open("a") as metrics_file:
        for index in range(first, last + 1):
            clock = time.perf_counter()
            if index == config.warmup_epochs and index > first:
                network, optimizer = _start(config, split, index, network.state_dict())
            if index < config.warmup_epochs:
                stage, epoch, epochs = "warm-up", index + 1, config.warmup_epochs
                rate = config.lr_low
            else:
                stage, epoch, epochs = "training", index - config.warmup_epochs + 1, config.epochs
                rate = triangle(epoch - 1, epochs, config.lr_low, config.lr_high)
            for group in optimizer.param_groups:
                group["lr"] = rate

            network.train()
            images, right, loss_sum = 0, 0, 0.0
            order = generator(config.seed, "order", index)
            batches = data.batches(split.x_train, split.y_train, config.batch_size, order)
            for batch, (x, y) in enumerate(batches):
                if len(x) == 1 < len(split.x_train):
                    continue  # one example has no variance for batch normalisation
                logits = network(harden(config, network, x.to(dtype), y, at=(index, batch)))
                loss = loss_of(logits, y)
                _demand_finite("training", loss.item(), network, f"{stage} epoch {epoch}", rate)
                optimizer.zero_grad()
                loss.backward()
                if config.clip is not None:
                    nn.utils.clip_grad_norm_(network.parameters(), config.clip)
                optimizer.step()
                images += len(x)
                right += int((predict(logits) == y).sum())
                loss_sum += loss.item() * len(x)
            speed = images / (time.perf_counter() - clock)

            validated = index == last or stage == "warm-up" or epoch % config.validate_every == 0
            if validated:
                measured = validate(network, split.x_test, split.y_test)
                _demand_finite("validation", measured.loss, network, f"{stage} epoch {epoch}", rate)
                line = Metrics(
                    stage=stage,
                    epoch=epoch,
                    epochs=epochs,
                    train_accuracy=right / images,
                    train_loss=loss_sum / images,
                    learning_rate=rate,
                    lam=_numbers(network, "effective_lam"),
                    slope=_numbers(network, "effective_slope"),
                    seconds=time.perf_counter() - last_line,
                    images_per_second=speed,
                    **asdict(measured),
                )
                metrics.append(line)
                last_line = time.perf_counter()

            if index == last or time.monotonic() >= checkpoint_due:
                folder.save(
                    Checkpoint(
                        identity=folder.identity,
                        image_shape=split.image_shape,
                        classes=split.classes,
                        data=examples,
                        epochs_done=index + 1,
                        neuron=_neuron(config, index),
                        weights=network.state_dict(),
                        momentum=momentum_of(network, optimizer),
                        metrics=tuple(metrics),
                        threads=tuple(threads),
                    )
                )
                checkpoint_due = time.monotonic() + checkpoint_seconds
            if validated:
                # A copy for readers: after a kill it is made again from the checkpoint.
                metrics_file.write(metrics[-1].to_line() + "\n")
                metrics_file.flush()
                if on_epoch is not None:
                    on_epoch(metrics[-1])

    result = summarise(config, split, examples, network, metrics, threads)
    folder.finish(result)
    return result


def _start(
    config: RunConfig, split: data.Dataset, index: int, weights: dict[str, Tensor]
) -> tuple[nn.Module, torch.optim.SGD]:
    """The network of epoch `index` with `weights`; after the warm-up lam keeps its own start."""
    network = build_network(config, split.image_shape, split.classes, _neuron(config, index))
    load_weights(network, {**network.state_dict(), **weights})
    return network, make_optimizer(config, network)


def _neuron(config: RunConfig, index: int) -> str:
    return "standard" if index < config.warmup_epochs else config.neuron


def _numbers(network: nn.Module, name: str) -> list[float]:
    """One number per layer with a lam; the mean where a layer has one per channel."""
    return [
        float(torch.as_tensor(getattr(layer, name)).detach().double().mean())
        for layer in lam_layers(network)
    ]


def _demand_finite(what: str, loss: float, network: nn.Module, when: str, rate: float) -> None:
    if not math.isfinite(loss):
        lam = "".join(f", lam {value:.3g}" for value in _numbers(network, "effective_lam"))
        raise DivergedError(f"{when}: {what} loss is {loss} (learning rate {rate:g}{lam})")
