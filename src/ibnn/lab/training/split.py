"""The examples of a run: the dataset cut and spoilt as its config says."""

import zlib
from pathlib import Path

from ibnn.lab import data
from ibnn.lab.data import Dataset
from ibnn.lab.files import StrPath
from ibnn.lab.models import network_kind, network_names
from ibnn.lab.training.config import RunConfig
from ibnn.lab.training.errors import CheckpointError, ConfigError


def with_checksum(config: RunConfig) -> RunConfig:
    """The config of a run on a user's own file with the sum of its contents, which names the run.

    Neither another path of the same file nor an edited file of the same path is then mistaken.
    Configs of datasets known by name, and those that have a sum, come back as they are.
    """
    if config.data_checksum is not None or not config.dataset.endswith((".npz", ".txt")):
        return config
    path = Path(config.dataset).expanduser().absolute()
    return config.replace(dataset=str(path), data_checksum=data.content_checksum(path))


def load_dataset(config: RunConfig, data_root: StrPath | None = None) -> Dataset:
    """The dataset of a run, whole; refused if its file is no longer the one the run is about."""
    if config.data_checksum is not None:
        found = data.content_checksum(config.dataset)
        if found != config.data_checksum:
            raise CheckpointError(
                f"{config.dataset} has changed: its checksum is {found}, the run's data had "
                f"{config.data_checksum}"
            )
    return data.load(config.dataset, data_root)


def examples(config: RunConfig, data_root: StrPath | None = None) -> Dataset:
    """What a run trains and validates on, from disk."""
    return prepare(config, load_dataset(config, data_root))


def prepare(config: RunConfig, dataset: Dataset) -> Dataset:
    """What this run trains on (`x_train`) and validates on (`x_test`)."""
    _check_kind(config, dataset)
    try:
        return _cut(config, dataset)
    except ValueError as error:
        raise ConfigError(f"{dataset.name} cannot be cut as asked: {error}") from None


def _cut(config: RunConfig, dataset: Dataset) -> Dataset:
    if dataset.is_text:
        dataset = dataset.cut_anew(config.context)
    seed = config.seed if config.data_seed is None else config.data_seed
    split = dataset.first(
        config.n_train or len(dataset.x_train), config.n_test or len(dataset.x_test)
    )
    if config.hold_out:
        split, _ = split.hold_out(config.hold_out, seed)
    if config.share < 1:
        split = split.subset(config.share, seed)
    if config.label_noise:
        split = split.with_label_noise(config.label_noise, seed)
    return split


def _check_kind(config: RunConfig, dataset: Dataset) -> None:
    """Refuse text for a network of images, the other way round, and points that are augmented."""
    if config.augmentation != "none" and len(dataset.image_shape) != 3:
        raise ConfigError(
            f"augmentation is {config.augmentation!r} but {dataset.name} has no images "
            f"(shape {dataset.image_shape}), expected 'none'"
        )
    if dataset.is_text == network_kind(config.network).text:
        return
    what = "is text" if dataset.is_text else "is not text"
    suited = [name for name in network_names() if network_kind(name).text == dataset.is_text]
    raise ConfigError(
        f"network is {config.network!r} but {dataset.name} {what}, expected network "
        f"{' or '.join(map(repr, suited))}"
    )


def fingerprint(split: Dataset) -> str:
    """A checksum of all examples and labels: a run never goes on with other data."""
    total = 0
    for tensor in (split.x_train, split.y_train, split.x_test, split.y_test):
        total = zlib.crc32(tensor.contiguous().numpy().data, total)
    return f"{total:08x}"
