"""The folder of a run: `<root>/runs/<identity>/`, its files, its lock."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from torch import Tensor, nn

from ibnn.lab import files
from ibnn.lab.files import StrPath
from ibnn.lab.training import checkpoint as checkpoints
from ibnn.lab.training.checkpoint import Checkpoint
from ibnn.lab.training.config import RunConfig
from ibnn.lab.training.errors import CheckpointError, ConfigError, RunLockedError
from ibnn.lab.training.network import build_network
from ibnn.lab.training.result import Metrics, Result, read_lines, write_lines

try:
    import fcntl
except ImportError:  # Windows: two commands on one folder are then the user's business
    fcntl = None

CONFIG = "config.json"
CHECKPOINT, PREVIOUS = "checkpoint.safetensors", "checkpoint.previous.safetensors"
Status = Literal["new", "started", "failed", "finished"]


class RunFolder:
    """Where a run lives. Nothing is created before `begin`."""

    def __init__(self, root: StrPath, identity: str):
        self.path = Path(root) / "runs" / identity
        self.identity = identity
        self.config_file = self.path / CONFIG
        self.metrics_file = self.path / "metrics.jsonl"
        self.checkpoint_file = self.path / CHECKPOINT
        self.previous_file = self.path / PREVIOUS
        self.result_file = self.path / "result.json"
        self.error_file = self.path / "error.txt"
        self.lock_file = self.path / "lock"

    @classmethod
    def at(cls, path: StrPath) -> RunFolder:
        """The run whose folder this is."""
        folder = Path(path).absolute()
        if folder.parent.name != "runs" or not (folder / CONFIG).is_file():
            raise CheckpointError(f"{path} is not a run folder, expected <root>/runs/<identity>")
        return cls(folder.parent.parent, folder.name)

    def status(self) -> Status:
        """How far the run has come."""
        if self.result_file.exists():
            return "finished"
        if self.error_file.exists():
            return "failed"
        return "started" if self.config_file.exists() else "new"

    def config(self) -> RunConfig:
        """The run's config, checked against the folder's name."""
        try:
            config = RunConfig.from_json(self.config_file.read_text(encoding="utf-8"))
        except OSError as error:
            raise CheckpointError(f"{self.config_file}: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise CheckpointError(f"{self.config_file} is damaged: {error}") from None
        except ConfigError as error:
            raise CheckpointError(f"{self.config_file}: {error}") from None
        if config.identity() != self.identity:
            raise CheckpointError(f"{self.config_file} describes run {config.identity()}")
        return config

    def result(self) -> Result:
        try:
            result = Result(**files.read_signed_json(self.result_file))
        except FileNotFoundError:
            raise CheckpointError(f"run {self.identity} has no result yet") from None
        except (OSError, ValueError, TypeError) as error:
            raise CheckpointError(
                f"{self.result_file} is damaged ({error}); delete it to finish the run again"
            ) from None
        if result.identity != self.identity:
            raise CheckpointError(f"{self.result_file} is of run {result.identity}")
        return result

    def metrics(self) -> list[Metrics]:
        try:
            return read_lines(self.metrics_file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return []
        except (ValueError, TypeError) as error:
            raise CheckpointError(f"{self.metrics_file} is damaged: {error}") from None

    def error(self) -> str:
        """Why the run failed: one line, then the traceback; empty when it did not."""
        if not self.error_file.exists():
            return ""
        return self.error_file.read_text(encoding="utf-8", errors="replace")

    def latest(self) -> Checkpoint | None:
        return self._own(checkpoints.read_latest(self.checkpoint_file, self.previous_file))

    def _own(self, latest: Checkpoint | None) -> Checkpoint | None:
        if latest is not None and latest.identity != self.identity:
            raise CheckpointError(f"{self.checkpoint_file} is of run {latest.identity}")
        return latest

    def network(self) -> nn.Module:
        """The network with the newest weights, ready to be used (in `eval` mode)."""
        latest = self.latest()
        if latest is None:
            raise CheckpointError(f"run {self.identity} has no checkpoint yet in {self.path}")
        network = build_network(
            self.config(), latest.image_shape, latest.classes, neuron=latest.neuron
        )
        load_weights(network, latest.weights)
        return network.eval()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the run for this process; the system lets go when the process dies."""
        self.path.mkdir(parents=True, exist_ok=True)
        with self.lock_file.open("a+") as file:
            if fcntl is not None:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    file.seek(0)
                    holder = file.read().strip() or "unknown"
                    raise RunLockedError(
                        f"run {self.identity} is being trained by process {holder}"
                    ) from None
                except OSError:  # a disk without locks, as some of clusters: as on Windows
                    pass
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield

    def begin(self, config: RunConfig) -> Checkpoint | None:
        """Make the files agree with the newest checkpoint, which is returned (under the lock)."""
        files.sweep(self.path)
        self.error_file.unlink(missing_ok=True)
        if self.config_file.exists():
            self.config()
        else:
            files.write_text(self.config_file, config.to_json())
        latest = self._own(checkpoints.recover(self.checkpoint_file, self.previous_file))
        files.write_text(self.metrics_file, write_lines(latest.metrics if latest else ()))
        return latest

    def save(self, checkpoint: Checkpoint) -> None:
        """Write the checkpoint; the one before stays beside it until the run is finished."""
        checkpoints.write(self.checkpoint_file, self.previous_file, checkpoint)

    def finish(self, result: Result) -> None:
        """The last write of a run."""
        files.write_signed_json(self.result_file, asdict(result))
        self.previous_file.unlink(missing_ok=True)

    def fail(self, reason: str, traceback: str) -> None:
        """Keep why the run failed; a full disk must not hide the reason behind its own."""
        with suppress(OSError):
            self.path.mkdir(parents=True, exist_ok=True)
            files.write_text(self.error_file, f"{reason}\n\n{traceback}")


def load_weights(network: nn.Module, weights: dict[str, Tensor]) -> None:
    """Load a state dict that must fit exactly."""
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        text = " ".join(str(error).split())
        raise CheckpointError(f"saved weights do not fit the network: {text}") from None


def all_runs(root: StrPath) -> list[RunFolder]:
    """Every run under `root`, oldest first."""
    found = [path.parent for path in Path(root).glob("runs/*/config.json")]
    return [RunFolder(root, path.name) for path in sorted(found, key=lambda p: p.stat().st_mtime)]
