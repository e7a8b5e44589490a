"""Engine `ray`: runs as tasks of a Ray cluster, joined by address or started here.

A cluster need not share a disk: the dataset travels with the tasks and the finished run folder
comes back. Where it does share one, a run whose worker was lost goes on from its checkpoint.
"""

import importlib
import os
import socket
from collections.abc import Sequence
from typing import Any

from ibnn.lab import data, files
from ibnn.lab.plugins import load_plugins
from ibnn.lab.runner.attempt import Attempts, record
from ibnn.lab.runner.options import RunnerError, RunnerOptions, python_path
from ibnn.lab.runner.outcome import Emit, Event
from ibnn.lab.training import Metrics, RunConfig, RunError, RunFolder, load_dataset

POLL_SECONDS = 0.2
CONNECT_SECONDS = 10.0


def run(configs: Sequence[RunConfig], options: RunnerOptions, emit: Emit) -> None:
    """Train all; Ray decides where, and starts a task again whose worker or node was lost."""
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError:
        raise RunnerError("engine 'ray' needs Ray: pip install 'ibnn[ray]'") from None
    started_here = not ray.is_initialized()
    if started_here:
        _connect(ray, options)
    try:
        _run(ray, configs, options, emit)
    finally:
        if started_here:
            ray.shutdown()


def _connect(ray: Any, options: RunnerOptions) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    keywords: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if options.address is None:
        keywords |= {"num_cpus": options.workers * options.threads, "include_dashboard": False}
        keywords["runtime_env"] = {"env_vars": {"PYTHONPATH": python_path()}}
    else:
        _knock(options.address)
        keywords["address"] = options.address
    try:
        ray.init(**keywords)
    except Exception as error:
        where = f"at {options.address}" if options.address else "on this machine"
        reason = str(error).strip().splitlines()
        raise RunnerError(f"no Ray cluster {where}: {reason[0] if reason else error!r}") from None


def _knock(address: str) -> None:
    """Refuse an address without a Ray cluster; Ray itself would wait for minutes."""
    host, colon, port = address.rpartition("://")[2].partition("/")[0].rpartition(":")
    if not colon:
        return  # "auto", "local": Ray knows
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
    except (OSError, ValueError) as error:
        raise RunnerError(f"no Ray cluster at {address}: {error}") from None


def _run(ray: Any, configs: Sequence[RunConfig], options: RunnerOptions, emit: Emit) -> None:
    mailbox = ray.remote(num_cpus=0)(Mailbox).remote()
    task = ray.remote(
        num_cpus=options.threads,
        num_gpus=_gpus(ray, options.device),
        max_retries=options.retries,
        runtime_env={"env_vars": options.environment()},
    )(_task)
    datasets: dict[str, Any] = {}
    running: dict[Any, RunConfig] = {}
    by_identity = {config.identity(): config for config in configs}
    attempt = {**options.attempt(None), "root": str(options.root.absolute())}
    for config in configs:
        if config.dataset not in datasets:
            try:
                datasets[config.dataset] = ray.put(load_dataset(config, options.data_root))
            except (data.DataError, RunError) as error:
                emit(Event(kind="failed", config=config, text=record(options.root, config, error)))
                continue
        job = task.remote(config.to_json(), attempt, datasets[config.dataset], mailbox)
        running[job] = config

    def pass_on() -> None:
        for identity, kind, value in ray.get(mailbox.drain.remote()):
            if kind == "started":
                emit(Event(kind="started", config=by_identity[identity], pid=value))
            else:
                emit(Event(kind="epoch", config=by_identity[identity], metrics=value))

    try:
        while running:
            finished, _ = ray.wait(list(running), timeout=POLL_SECONDS)
            pass_on()
            for job in finished:
                config = running.pop(job)
                text = _collect(ray, job, config, options)
                emit(Event(kind="failed" if text else "done", config=config, text=text))
    finally:
        for job in running:
            ray.cancel(job, force=True)


def _gpus(ray: Any, device: str) -> int:
    """What a task asks the cluster for. Ray counts the GPUs of CUDA, ROCm and Intel, and a task
    waits until there is one: with `auto` only where the cluster has any."""
    if device in ("cpu", "mps"):
        return 0
    return 1 if device != "auto" or ray.cluster_resources().get("GPU", 0) else 0


def _collect(ray: Any, job: Any, config: RunConfig, options: RunnerOptions) -> str:
    """Bring the run folder home if it is not here; the text is empty when the run is finished."""
    try:
        text, contents = ray.get(job)
    except Exception as error:
        lost = RunnerError(f"lost its worker: {type(error).__name__}")
        return record(options.root, config, lost)
    folder = RunFolder(options.root, config.identity())
    if folder.status() != ("failed" if text else "finished"):
        folder.path.mkdir(parents=True, exist_ok=True)
        for name in sorted(contents, key=lambda name: name == "result.json"):
            files.write_bytes(folder.path / name, contents[name])
    return text


class Mailbox:
    """An actor that keeps what tasks report until the command asks for it."""

    def __init__(self) -> None:
        self._letters: list[tuple[str, str, Any]] = []

    def post(self, identity: str, kind: str, value: Any) -> None:
        self._letters.append((identity, kind, value))

    def drain(self) -> list[tuple[str, str, Any]]:
        """Hand over everything kept."""
        letters, self._letters = self._letters, []
        return letters


def _task(
    config_json: str, attempt: dict[str, Any], dataset: data.Dataset, mailbox: Any
) -> tuple[str, dict[str, bytes]]:
    """On the cluster: train one run; what went wrong as text, and the files of the run."""
    load_plugins()
    config = RunConfig.from_json(config_json)
    identity = config.identity()
    mailbox.post.remote(identity, "started", os.getpid())

    def on_epoch(metrics: Metrics) -> None:
        mailbox.post.remote(identity, "epoch", metrics)

    text = Attempts(**attempt, dataset=dataset)(config, on_epoch)
    folder = RunFolder(attempt["root"], identity)
    kept = [
        *(folder.config_file, folder.metrics_file, folder.checkpoint_file),
        *(folder.error_file, folder.result_file),
    ]
    return text, {file.name: file.read_bytes() for file in kept if file.exists()}
