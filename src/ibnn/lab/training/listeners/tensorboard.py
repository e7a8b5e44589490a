"""TensorBoard event files beside a run: `ibnn train --log tensorboard`, then `tensorboard`."""

import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ibnn.lab.training.config import RunConfig
from ibnn.lab.training.epochs import epochs_done
from ibnn.lab.training.listeners.listener import Listener
from ibnn.lab.training.listeners.registry import ListenerError
from ibnn.lab.training.result import Metrics, Result

FOLDER = "tensorboard"
SCALARS = {
    "accuracy/validation": "accuracy",
    "accuracy/training": "train_accuracy",
    "loss/validation": "loss",
    "loss/training": "train_loss",
    "bits per character": "bits_per_character",
    "learning rate": "learning_rate",
    "solver/steps": "steps",
    "solver/residual": "residual",
    "solver/converged": "converged",
    "images per second": "images_per_second",
}


class TensorBoard(Listener):
    """Scalars of every validation by epoch, warm-up included, in `<run>/tensorboard`."""

    def __init__(self) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of its own dependencies
                from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ListenerError(
                f"log 'tensorboard' needs TensorBoard ({error}): pip install 'ibnn[tensorboard]'"
            ) from None
        self._make = SummaryWriter
        self._writer: Any = None
        self._config: Any = None

    def on_start(self, config: RunConfig, folder: Path, epochs_done: int) -> None:
        """What was logged after the checkpoint a run goes on from is not shown again."""
        self._config = config
        self._writer = self._make(str(folder / FOLDER), purge_step=epochs_done + 1)
        self._writer.add_text("config", f"    {config.to_json()}".replace("\n", "\n    "))

    def on_epoch(self, metrics: Metrics) -> None:
        done = epochs_done(self._config, metrics)
        values = asdict(metrics)
        for tag, name in SCALARS.items():
            if values[name] is not None:
                self._writer.add_scalar(tag, values[name], done)
        for name in ("lam", "slope"):
            for layer, value in enumerate(values[name], 1):
                self._writer.add_scalar(f"{name}/layer {layer}", value, done)
        self._writer.flush()

    def on_finish(self, result: Result) -> None:
        bits = result.best_bits_per_character
        best = f"{100 * result.best_accuracy:.2f} %" if bits is None else f"{bits:.4f} bits"
        self._writer.add_text("result", f"best {best}")

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
