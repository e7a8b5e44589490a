"""A model under many attacks: robust accuracy under each and under all, and checks of both."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from ibnn.lab.attacks.attack import Attack, Attacked
from ibnn.lab.attacks.certificate import certify
from ibnn.lab.attacks.checks import CHECKS, PASSES, Check, Target
from ibnn.lab.attacks.checks.strength import CURVE, within
from ibnn.lab.attacks.evaluation import Certified, Evaluation, Row
from ibnn.lab.attacks.frozen import frozen
from ibnn.lab.attacks.lipschitz import UnknownLayerError
from ibnn.lab.attacks.settings import check_ball, check_eps
from ibnn.lab.attacks.suites import suite
from ibnn.lab.models import implicit_layers
from ibnn.lab.stats.proportion import wilson
from ibnn.lab.training.ball import Norm

Progress = Callable[[str, int, int], None]


class TwoLogits(nn.Module):
    """A network with one output, the logit of the second of two classes, as attacks see it."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        logit = self.network(x)
        return torch.cat([torch.zeros_like(logit), logit], 1)


def evaluate(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    *,
    eps: float,
    norm: Norm = "linf",
    attacks: str | Sequence[Attack] = "standard",
    quick: bool = False,
    checks: bool = True,
    seed: int = 0,
    batch_size: int = 250,
    progress: Progress | None = None,
) -> Evaluation:
    """Attack any torch model on images `x` in [0, 1] with labels `y`.

    Args:
        attacks: names with commas between ("standard" is the whole list), or attacks. Those of
            another norm, such as Pixle, are shown but take no part in the worst case; those for
            implicit layers are left out where the model has none.
        quick: a tenth of the work for attacks given by name.
        checks: run the checks on the first 200 images as well.
        progress: called with what comes next and how much of how much is done, in passes of an
            image through the model at most.

    The model's modes, flags and gradients are left as they were.

    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    >>> images, labels = torch.rand(8, 1, 2, 2), torch.arange(8) % 2
    >>> found = evaluate(model, images, labels, eps=0.1, attacks="pgd", checks=False)
    >>> found.robust_accuracy <= found.clean_accuracy
    True
    """
    check_ball(norm)
    check_eps(eps)
    if not len(x):
        raise ValueError("x holds no images, expected at least 1")
    began = time.perf_counter()
    chosen = suite(attacks, eps, norm, quick) if isinstance(attacks, str) else list(attacks)
    chosen = applicable(model, chosen)
    lam = [float(layer.effective_lam.detach().double().mean()) for layer in implicit_layers(model)]
    work = _work(model, x, chosen, checks)
    total = sum(work)

    def tell(what: str, done: int) -> None:
        if progress is not None:
            progress(what, sum(work[:done]), total)

    with frozen(model):
        two = model(x[:1]).shape[1] == 1
        attacked = TwoLogits(model).eval() if two else model
        parts = [attacked(part).argmax(1) for part in x.split(batch_size)]
        right = torch.cat(parts) == y
        rows, results = [], []
        for number, attack in enumerate(chosen):
            tell(attack.name, number)
            clock = time.perf_counter()
            generator = torch.Generator().manual_seed(seed)
            result = attack(attacked, x, y, generator=generator, batch_size=batch_size)
            results.append((attack, result))
            rows.append(_row(attack, result, right, eps, norm, time.perf_counter() - clock))
        tell("certificate", len(chosen))
        certified = _certified(model, x, y, eps, norm, batch_size)
        found: list[Check] = []
        if checks:
            target = Target(attacked, x, y, eps, norm, results, seed, batch_size)
            for number, check in enumerate(CHECKS):
                tell(f"check: {check.__name__.replace('_', ' ')}", len(chosen) + 1 + number)
                found.append(check(target))
    tell("done", len(work))
    standing = right.clone()
    for row in rows:
        if row.within_ball:
            standing &= torch.tensor([digit == "0" for digit in row.broken], device=right.device)
    return Evaluation(
        model=type(model).__name__,
        lam=lam,
        images=len(x),
        eps=float(eps),
        norm=norm,
        seed=seed,
        right=_digits(right),
        clean_accuracy=float(right.double().mean()),
        rows=tuple(_distinct(rows)),
        robust_accuracy=float(standing.double().mean()),
        checks=tuple(found),
        certified=certified,
        seconds=time.perf_counter() - began,
    )


def applicable(model: nn.Module, attacks: Sequence[Attack]) -> list[Attack]:
    """Those of the attacks that this model can be attacked by; an error if it is none of them."""
    implicit = bool(implicit_layers(model))
    kept = [attack for attack in attacks if attack.applies(implicit)]
    if attacks and not kept:
        names = ", ".join(attack.name for attack in attacks)
        raise ValueError(f"the network has no implicit layers, which {names} needs")
    return kept


def passes(model: nn.Module, x: Tensor, attacks: Sequence[Attack], checks: bool = True) -> int:
    """How many images at most go through the model in an evaluation, a gradient counted as two."""
    return sum(_work(model, x, attacks, checks))


def _work(model: nn.Module, x: Tensor, attacks: Sequence[Attack], checks: bool) -> list[int]:
    """Passes of each attack, of the certificate and of each check."""
    with frozen(model):
        classes = max(2, model(x[:1]).shape[1])
    work = [max(1, attack.passes(classes)) * len(x) for attack in attacks] + [len(x)]
    sample = min(len(x), Target.sample)
    return work + [PASSES * sample // len(CHECKS)] * (len(CHECKS) if checks else 0)


def _row(
    attack: Attack, result: Attacked, right: Tensor, eps: float, norm: str, seconds: float
) -> Row:
    within_ball = attack.norm == norm
    broken = right & result.success
    if within_ball:  # an attack that looks for the smallest distance may have found a larger one
        broken &= within(result.distance, eps)
    left, count = int((right & ~broken).sum()), len(right)
    distances = result.distance[broken].double()
    queries = result.queries[right].double()
    return Row(
        name=attack.name,
        norm=attack.norm,
        uses_gradients=attack.uses_gradients,
        within_ball=within_ball,
        broken=_digits(broken),
        robust_accuracy=left / count,
        interval=wilson(left, count),
        median_distance=float(distances.median()) if len(distances) else None,
        median_queries=float(queries.median()) if len(queries) else 0.0,
        seconds=seconds,
    )


def _certified(
    model: nn.Module, x: Tensor, y: Tensor, eps: float, norm: Norm, batch_size: int
) -> Certified:
    try:
        certificate = certify(model, x, y, norm, batch_size=batch_size)
    except UnknownLayerError as error:
        return Certified(reason=str(error))
    radii = [eps * fraction for fraction in (0.0, 0.01, 0.1, *CURVE[1:])]
    pairs = tuple((radius, certificate.accuracy(radius)) for radius in radii)
    finite = certificate.lipschitz < float("inf")
    return Certified(certificate.lipschitz if finite else None, pairs)


def _distinct(rows: Sequence[Row]) -> list[Row]:
    """Two attacks of one name with other settings are numbered."""
    seen: dict[str, int] = {}
    named = []
    for row in rows:
        seen[row.name] = number = seen.get(row.name, 0) + 1
        named.append(row if number == 1 else replace(row, name=f"{row.name} ({number})"))
    return named


def _digits(flags: Tensor) -> str:
    return "".join("1" if flag else "0" for flag in flags.tolist())
