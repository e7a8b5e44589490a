"""What no attack can do: a margin that the network provably keeps within a ball.

If logits f_y - f_j change by at most `L_yj * eps` for any change of the input of size eps, an image
with margins f_y - f_j > L_yj * eps keeps its class. L comes from `lipschitz`; the affine maps at
the end of the network (batch norm, head) are multiplied out, so that a linear classifier gets its
exact answer. Both balls speak for each other: l_2 <= sqrt(n) l_inf and l_inf <= l_2.

Everything is in float64 and about exact arithmetic; a network run in float32 rounds.
"""

import copy
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ibnn.lab.attacks.lipschitz import is_affine, layers_of, through


@dataclass(frozen=True)
class Certificate:
    """norm: of the ball. radius: of each image, the largest proven distance; 0 where the network
    is wrong. lipschitz: the largest change of a difference of two logits per unit of distance."""

    norm: str
    radius: Tensor
    lipschitz: float

    def accuracy(self, eps: float) -> float:
        """The fraction of images that are right and stay so within eps, whatever the attack."""
        return float((self.radius > eps).double().mean()) if len(self.radius) else math.nan


@torch.no_grad()
def certify(
    model: nn.Module, x: Tensor, y: Tensor, norm: str = "linf", *, batch_size: int = 250
) -> Certificate:
    """Certified radii of images `x` with labels `y`, in `eval` mode.

    Raises UnknownLayerError where a layer has no proven bound: the network has no certificate.

    >>> model = nn.Linear(2, 2, bias=False)
    >>> _ = model.weight.data.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    >>> certify(model, torch.tensor([[0.7, 0.3]]), torch.tensor([0])).radius
    tensor([0.2000], dtype=torch.float64)
    """
    if norm not in ("linf", "l2"):
        raise ValueError(f"norm is {norm!r}, expected 'linf' or 'l2'")
    # on the processor: not every device has float64, and there is little to compute
    exact = copy.deepcopy(model).cpu().double().eval()
    x, y = x.cpu(), y.cpu()
    lipschitz = pair_constants(exact, x.shape[1:])
    own = lipschitz[norm]
    if norm == "linf":
        own = torch.minimum(own, lipschitz["l2"] * math.sqrt(math.prod(x.shape[1:])))
    else:
        own = torch.minimum(own, lipschitz["linf"])
    radii = [
        _radii(exact(part.double()), labels, own)
        for part, labels in zip(x.split(batch_size), y.split(batch_size), strict=True)
    ]
    return Certificate(norm, torch.cat(radii), float(own.max()))


@torch.no_grad()
def pair_constants(model: nn.Module, shape: tuple[int, ...]) -> dict[str, Tensor]:
    """For each norm a matrix (classes x classes): how much f_i - f_j can change per distance."""
    layers = layers_of(model)
    tail: list[nn.Module] = []
    while layers and is_affine(layers[-1]):
        tail.insert(0, layers.pop())
    radius, gain = torch.ones(1, *shape, dtype=torch.float64), 1.0
    for layer in layers:
        radius, gain = through(layer, radius, gain)
    rows = _matrix(nn.Sequential(*tail), radius.shape)
    between = [rows - row for row in rows]
    linf = torch.stack([difference.abs() @ radius.flatten() for difference in between])
    l2 = torch.stack([torch.linalg.vector_norm(difference, dim=1) for difference in between])
    # beyond the threshold of uniqueness nothing is proven: infinite (and not 0 times infinity)
    unproven = {"nan": math.inf, "posinf": math.inf}
    return {"linf": linf.nan_to_num(**unproven), "l2": (gain * l2).nan_to_num(**unproven)}


def _matrix(tail: nn.Sequential, shape: torch.Size) -> Tensor:
    """The affine map as one matrix, (classes, units); a single output is the second of two."""
    zero = torch.zeros(shape, dtype=torch.float64)
    # a network may end without an affine map: its last units are the logits
    with torch.enable_grad():
        found: Any = torch.autograd.functional.jacobian(lambda x: tail(x).flatten(), zero)
    matrix = found.flatten(1)
    return torch.cat([torch.zeros_like(matrix), matrix]) if len(matrix) == 1 else matrix


def _radii(logits: Tensor, y: Tensor, lipschitz: Tensor) -> Tensor:
    if logits.shape[1] == 1:
        logits = torch.cat([torch.zeros_like(logits), logits], 1)
    true = y[:, None]
    margins = logits.gather(1, true) - logits
    # two equal logit functions never part: their margin is kept at any distance
    radii = torch.where(margins > 0, margins / lipschitz[y].clamp(min=1e-300), 0.0)
    return radii.scatter(1, true, math.inf).amin(1)
