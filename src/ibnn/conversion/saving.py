"""A network in a folder: weights as safetensors, the plan of its conversion as JSON."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ibnn._checks import check_module
from ibnn.conversion.atomic_file import atomic
from ibnn.conversion.convert import convert
from ibnn.conversion.plan import Plan
from ibnn.nn import record
from ibnn.nn.layer import ImplicitLayer

Model = TypeVar("Model", bound=nn.Module)
Folder = str | os.PathLike[str]

VERSION = 1
INDEX = "ibnn.json"
# how weights are named, after their checksum; others of a folder are a user's own
_WEIGHTS = f"weights-{'[0-9a-f]' * 16}.safetensors"


def save(model: nn.Module, folder: Folder) -> Path:
    """Writes the weights of `model` and the plan of its implicit layers into `folder`.

    `ibnn.json` names the file of weights and holds its checksum, the plan and a checksum of itself;
    it is written last, so that the folder holds the old network or the new one at every moment.
    Needs safetensors.

    Args:
        model: any module; implicit layers are found whether `ibnn.convert` made them or you did.
        folder: made where it is missing; a network saved there before is replaced.

    Returns:
        The folder.

    Examples:
        >>> import ibnn, tempfile
        >>> network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> folder = save(ibnn.convert(network, lam=-0.5), tempfile.mkdtemp())
        >>> load(folder, nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)))[0]
        Linear(in_features=4, out_features=8, bias=True, lam=-0.5, slope=10, ...)
    """
    safetensors = _safetensors()
    check_module(model)
    plan, tensors = Plan.of(model), _distinct(model.state_dict())
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    data = safetensors.save(tensors, {"format": "pt"})
    digest = hashlib.sha256(data).hexdigest()
    weights = path / f"weights-{digest[:16]}.safetensors"
    with atomic(weights) as file:
        file.write(data)
    index = {
        "version": VERSION,
        "weights": {"file": weights.name, "sha256": digest},
        "plan": plan.to_dict(),
    }
    text = json.dumps({**index, "sha256": _digest(index)}, indent=2, allow_nan=False)
    with atomic(path / INDEX) as file:
        file.write((text + "\n").encode())
    for older in path.glob(_WEIGHTS):
        if older.name != weights.name:
            older.unlink(missing_ok=True)
    return path


def load(folder: Folder, model: Model) -> Model:
    """A copy of `model` with the implicit layers and the weights that `folder` holds.

    The folder is one that `ibnn.save` wrote, or one of `save_pretrained` of a converted Hugging
    Face model, whose config holds the plan. Plain `from_pretrained` on the latter ignores the plan
    and gives a standard network. Needs safetensors.

    Args:
        folder: where the network is.
        model: the same network before its conversion (e.g. `AutoModel.from_config(config)`), or
            with the same implicit layers; its weights do not matter, and it is not changed.

    Raises:
        ValueError: one line that names what is damaged, of another version, or does not fit.

    Examples:
        >>> import ibnn, tempfile
        >>> folder = save(nn.Sequential(ibnn.Linear(4, 8, lam=-0.5)), tempfile.mkdtemp())
        >>> load(folder, nn.Sequential(nn.Linear(4, 8)))[0].lam
        Parameter containing:
        tensor(-0.5000, requires_grad=True)
    """
    safetensors = _safetensors()
    if isinstance(folder, nn.Module):
        raise TypeError("load takes the folder first, then the model")
    path = Path(folder)
    if (path / INDEX).is_file():
        plan, files = _read_index(path)
    elif (path / "config.json").is_file():
        plan, files = _read_pretrained(path)
    else:
        raise ValueError(f"{path} holds no network: expected {INDEX} (or a pretrained config.json)")
    state: dict[str, Tensor] = {}
    for file in files:
        try:
            state |= safetensors.load(file.read_bytes())
        except Exception as error:
            raise ValueError(f"{file} is damaged: {_line(error)}") from None
    loaded = convert(model, plan=plan)
    _put(loaded, state, path)
    return loaded


def _put(model: nn.Module, state: dict[str, Tensor], path: Path) -> None:
    own = model.state_dict()
    alike = {name: _identity(value) for name, value in own.items()}
    present = {alike[name] for name in state if name in alike}
    descriptions = _descriptions(model)
    # tied weights are stored once; the description of a layer may be absent
    missing = [
        name
        for name in own
        if name not in state and alike[name] not in present and name not in descriptions
    ]
    unknown = [name for name in state if name not in own]
    shapes = [n for n, v in state.items() if n in own and own[n].shape != v.shape]
    shapes = [name for name in shapes if name not in descriptions]
    for names, what in (
        (missing, "has no weights for"),
        (unknown, "has weights the model lacks:"),
        (shapes, "has weights of another shape for"),
    ):
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise ValueError(f"{path} does not fit the model: it {what} {names[0]!r}{more}")
    first: dict[Any, str] = {}
    for name in (name for name in own if name in state and name not in descriptions):
        other = first.setdefault(alike[name], name)
        if other != name and not torch.equal(state[other], state[name]):
            raise ValueError(
                f"{path} does not fit the model: it has different weights for {other!r} and "
                f"{name!r}, which the model ties"
            )
    try:
        model.load_state_dict(state, strict=False)
    except RuntimeError as error:
        raise ValueError(f"{path} does not fit the model: {_line(error)}") from None


def _descriptions(model: nn.Module) -> set[str]:
    """The keys under which implicit layers describe themselves; a user's weights may be called
    alike."""
    return {
        f"{name}.{record.KEY}" if name else record.KEY
        for name, layer in model.named_modules(remove_duplicate=False)
        if isinstance(layer, ImplicitLayer)
    }


def _read_index(path: Path) -> tuple[Plan, list[Path]]:
    file = path / INDEX
    index = _read_json(file)
    if index.get("version") != VERSION:
        raise ValueError(
            f"{file} has version {index.get('version')!r}, this ibnn reads {VERSION}: "
            "it was written by another version"
        )
    expected = index.pop("sha256", None)
    if expected != _digest(index):
        raise ValueError(f"{file} is damaged: its checksum does not fit its contents")
    weights = path / Path(index["weights"]["file"]).name
    if not weights.is_file():
        raise ValueError(f"{weights} is missing")
    if hashlib.sha256(weights.read_bytes()).hexdigest() != index["weights"]["sha256"]:
        raise ValueError(f"{weights} is damaged: its checksum does not fit its contents")
    return _plan(file, index["plan"]), [weights]


def _read_pretrained(path: Path) -> tuple[Plan, list[Path]]:
    file = path / "config.json"
    config = _read_json(file)
    if "ibnn" not in config:
        raise ValueError(
            f"{file} carries no plan of a conversion: a standard model, or one whose saving "
            "leaves the plan out (ibnn.save keeps it)"
        )
    single, shards = path / "model.safetensors", path / "model.safetensors.index.json"
    if shards.is_file():
        names = sorted(set(_read_json(shards).get("weight_map", {}).values()))
        files = [path / Path(name).name for name in names]
    else:
        files = [single]
    for weights in files:
        if not weights.is_file():
            raise ValueError(f"{weights} is missing: weights are read from safetensors only")
    return _plan(file, config["ibnn"]), files


def _plan(file: Path, data: Any) -> Plan:
    try:
        return Plan.from_dict(data)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def _read_json(file: Path) -> dict[str, Any]:
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} is damaged: {_line(error)}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{file} is damaged: expected an object")
    return value


def _distinct(state: Mapping[str, Any]) -> dict[str, Tensor]:
    """Each tensor once, under its first name, in memory of its own."""
    found: dict[Any, str] = {}
    tensors: dict[str, Tensor] = {}
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise ValueError(f"{name!r} of the model is a {type(value).__name__}, not a tensor")
        if value.is_meta:
            raise ValueError(f"{name!r} is on the meta device: give the model weights before")
        if found.setdefault(_identity(value), name) == name:
            tensors[name] = value.detach().to("cpu", copy=True).contiguous()
    return tensors


def _identity(value: Tensor) -> Any:
    """The same for two names of one tensor."""
    if not isinstance(value, Tensor) or value.is_meta or not value.numel():
        return id(value)
    return value.data_ptr(), tuple(value.shape), value.stride(), value.dtype


def _safetensors() -> Any:
    try:
        import safetensors.torch
    except ImportError:
        raise ImportError(
            "ibnn.save and ibnn.load need safetensors: pip install safetensors"
        ) from None
    return safetensors.torch


def _digest(index: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(index, sort_keys=True).encode()).hexdigest()


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
