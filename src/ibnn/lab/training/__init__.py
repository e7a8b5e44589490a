"""One run from config to result: the training loop and the folder it survives in."""

from ibnn.lab.training.config import RunConfig
from ibnn.lab.training.device import DeviceError, choose_device
from ibnn.lab.training.environment import environment
from ibnn.lab.training.epochs import triangle
from ibnn.lab.training.errors import (
    CheckpointError,
    ConfigError,
    DivergedError,
    RunError,
    RunLockedError,
)
from ibnn.lab.training.folder import RunFolder, all_runs
from ibnn.lab.training.listeners import (
    Listener,
    ListenerError,
    listener_names,
    make_listeners,
    register_listener,
)
from ibnn.lab.training.loop import train
from ibnn.lab.training.network import build_network, parameter_count
from ibnn.lab.training.network_file import OpenedNetwork, load_network, open_network
from ibnn.lab.training.objective import loss_of, predict
from ibnn.lab.training.result import Metrics, Result
from ibnn.lab.training.split import examples, load_dataset, prepare, with_checksum
from ibnn.lab.training.validation import Validation, validate

__all__ = [
    "CheckpointError",
    "ConfigError",
    "DeviceError",
    "DivergedError",
    "Listener",
    "ListenerError",
    "Metrics",
    "OpenedNetwork",
    "Result",
    "RunConfig",
    "RunError",
    "RunFolder",
    "RunLockedError",
    "Validation",
    "all_runs",
    "build_network",
    "choose_device",
    "environment",
    "examples",
    "listener_names",
    "load_dataset",
    "load_network",
    "loss_of",
    "make_listeners",
    "open_network",
    "parameter_count",
    "predict",
    "prepare",
    "register_listener",
    "train",
    "triangle",
    "validate",
    "with_checksum",
]
