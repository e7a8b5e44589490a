"""Training one run, top to bottom: data, warm-up, switch of neuron, epochs, result.

Warm-up epochs train a standard network at the lowest learning rate; the run's own network then
starts from its weights with a fresh optimizer and schedule. A standard run does the same, so
both neurons are treated alike. Everything random follows from the seed, the purpose and the
epoch (see `seeds`), so a run that was killed goes on from its checkpoint as if nothing happened.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

import torch
from torch import Tensor, nn

from ibnn.lab import data
from ibnn.lab.files import StrPath
from ibnn.lab.models import lam_layers
from ibnn.lab.models.few_channels import use_compiled_convolution
from ibnn.lab.training.adversarial import adversarial_examples
from ibnn.lab.training.augmentation import augmented
from ibnn.lab.training.config import RunConfig
from ibnn.lab.training.device import choose_device
from ibnn.lab.training.distributed import Group, joined, own_device
from ibnn.lab.training.epochs import epochs, neuron_of
from ibnn.lab.training.errors import DivergedError
from ibnn.lab.training.folder import RunFolder, load_weights
from ibnn.lab.training.listeners import CallOnEpoch, Listener
from ibnn.lab.training.network import build_network
from ibnn.lab.training.objective import loss_of, predict
from ibnn.lab.training.optimizer import load_momentum, make_optimizer, momentum_of
from ibnn.lab.training.recorder import Recorder
from ibnn.lab.training.result import Metrics, Result
from ibnn.lab.training.seeds import generator
from ibnn.lab.training.split import fingerprint, load_dataset, prepare, with_checksum
from ibnn.lab.training.validation import validate


def train(
    config: RunConfig,
    root: StrPath,
    *,
    data_root: StrPath | None = None,
    dataset: data.Dataset | None = None,
    device: str | torch.device = "cpu",
    on_epoch: Callable[[Metrics], None] | None = None,
    listeners: Sequence[Listener] = (),
    checkpoint_seconds: float = 1.0,
) -> Result:
    """Train the run in `<root>/runs/<identity>`, from its last checkpoint if there is one.

    Args:
        data_root: where datasets are kept.
        dataset: the dataset as loaded, to spare loading it again; the config's fraction, noise and
            limits are applied here.
        device: where it is trained, `"auto"` for the first accelerator. Not part of the run's
            identity: a run may go on on another device, and its result names them all.
        on_epoch: called after every validation; a listener in one function.
        listeners: called when training begins, after every validation and when it has finished.
        checkpoint_seconds: a checkpoint follows each epoch, but not sooner than this after the
            one before; the last epoch always has one.

    Raises:
        DivergedError: the loss is no longer finite.
        RunLockedError: another process is training this run.
    """
    place = choose_device(own_device(device))
    config = with_checksum(config) if dataset is None else config
    folder = RunFolder(root, config.identity())
    if folder.status() == "finished":
        return folder.result()
    whole = dataset if dataset is not None else load_dataset(config, data_root)
    split = prepare(config, whole)
    build_network(config, split.image_shape, split.classes)  # what cannot be built is told now
    told = [*listeners, *([CallOnEpoch(on_epoch)] if on_epoch else [])]
    with joined(place) as group:
        if not group.leads:
            return _train(config, split, place, group, None)
        with folder.lock():
            if folder.status() == "finished":
                return group.share((folder.result(), None))[0]
            with Recorder(
                config,
                folder,
                split,
                fingerprint(split),
                device=place,
                listeners=told,
                checkpoint_seconds=checkpoint_seconds,
            ) as record:
                return _train(config, split, place, group, record)


def _train(
    config: RunConfig,
    split: data.Dataset,
    device: torch.device,
    group: Group,
    record: Recorder | None,
) -> Result:
    """Train to the end; `record` is that of the process that leads, None in the others."""
    result, latest = group.share((None, record.latest if record else None))
    if result is not None:  # another command has finished it meanwhile
        return result
    split = split.to(device)  # once; batches are cut out of it there
    dtype = getattr(torch, config.dtype)
    first = latest.epochs_done if latest else 0
    weights = latest.weights if latest else {}
    network, optimizer = _start(config, split, device, neuron_of(config, first), weights)
    if latest is not None and first != config.warmup_epochs:
        load_momentum(network, optimizer, latest.momentum)
    model = group.wrap(network)

    last_line = time.perf_counter()
    for epoch in epochs(config, first):
        clock = time.perf_counter()
        if epoch.switches:
            weights = network.state_dict()
            network, optimizer = _start(config, split, device, epoch.neuron, weights)
            model = group.wrap(network)
        network.train()
        images, right, loss_sum = 0, torch.zeros((), dtype=torch.int64, device=device), 0.0
        order = generator(config.seed, "order", epoch.index)
        batches = data.batches(split.x_train, split.y_train, config.batch_size, order)
        steps = math.ceil(len(split.x_train) / config.batch_size)
        random = generator(config.seed, "augmentation", epoch.index)
        for number, batch in enumerate(batches):
            if len(batch[0]) < min(2 * group.size, len(split.x_train)):
                continue  # one example has no variance for batch normalization
            for parameters in optimizer.param_groups:
                parameters["lr"] = epoch.rate_at(config, number / steps)
            x, y = group.part(augmented(batch[0], config.augmentation, random), batch[1])
            place = epoch.index, number * group.size + group.rank
            x = adversarial_examples(config, network, data.as_float(x, dtype), y, at=place)
            with torch.autocast(device.type, torch.bfloat16, enabled=config.autocast is not None):
                logits = model(x)
                loss = loss_of(logits, y)
            loss_now = loss.item()
            _demand_finite("training", loss_now, network, str(epoch), epoch.rate)
            optimizer.zero_grad()
            if group.size > 1:  # parts need not be equal: the mean is that of the whole batch
                loss = loss * (len(x) * group.size / len(batch[0]))
            loss.backward()
            if config.clip is not None:
                nn.utils.clip_grad_norm_(network.parameters(), config.clip)
            optimizer.step()
            images += len(x)
            right += (predict(logits) == y).sum()
            loss_sum += loss_now * len(x)
        images, correct, loss_sum = group.total(images, int(right), loss_sum)
        speed = images / (time.perf_counter() - clock)
        if record is None:
            continue

        if epoch.validated:
            measured = validate(network, split.x_test, split.y_test)
            _demand_finite("validation", measured.loss, network, str(epoch), epoch.rate)
            record.add(
                epoch.metrics(
                    train_accuracy=correct / (images * split.y_train[0].numel()),
                    train_loss=loss_sum / images,
                    lam=_numbers(network, "effective_lam"),
                    slope=_numbers(network, "effective_slope"),
                    seconds=time.perf_counter() - last_line,
                    images_per_second=speed,
                    **asdict(measured),
                )
            )
            last_line = time.perf_counter()
        if record.due(epoch):
            momentum = momentum_of(network, optimizer)
            record.save(epoch, network.state_dict(), momentum, epoch.neuron)
        if epoch.validated:
            record.publish()
    several = {"processes": group.size} if group.size > 1 else {}
    return group.share(record.finish(network, **several) if record else None)  # type: ignore


def _start(
    config: RunConfig,
    split: data.Dataset,
    device: torch.device,
    neuron: str,
    weights: Mapping[str, Tensor],
) -> tuple[nn.Module, torch.optim.Optimizer]:
    """A network of that neuron with `weights`; after the warm-up lam keeps its own start."""
    network = build_network(config, split.image_shape, split.classes, neuron).to(device)
    load_weights(network, {**network.state_dict(), **weights})
    use_compiled_convolution(network)
    return network, make_optimizer(config, network)


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
