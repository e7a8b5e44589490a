"""Attacks by name, and the list of them an honest evaluation runs."""

from collections.abc import Callable

from ibnn.lab.attacks.apgd import APGD
from ibnn.lab.attacks.attack import Attack
from ibnn.lab.attacks.fab import FAB
from ibnn.lab.attacks.hopskipjump import HopSkipJump
from ibnn.lab.attacks.intermediate import IntermediateStates
from ibnn.lab.attacks.noise import Noise, RandomSearch
from ibnn.lab.attacks.pgd import PGD, fgsm
from ibnn.lab.attacks.pixle import Pixle
from ibnn.lab.attacks.settings import check_ball, check_eps
from ibnn.lab.attacks.square import Square
from ibnn.lab.attacks.transfer import Transfer
from ibnn.lab.registry import Registry, expected
from ibnn.lab.training.ball import Norm

Maker = Callable[[float, Norm, bool], Attack]

_OWN: dict[str, Maker] = {
    "noise": lambda eps, norm, quick: Noise(eps, 2 if quick else 10, norm=norm),
    "random-search": lambda eps, norm, quick: RandomSearch(eps, 20 if quick else 200, norm=norm),
    "fgsm": lambda eps, norm, quick: fgsm(eps, norm=norm),
    "pgd": lambda eps, norm, quick: PGD(eps, restarts=1 if quick else 5, norm=norm),
    "pgd-margin": lambda eps, norm, quick: PGD(
        eps, loss="margin", restarts=1 if quick else 5, norm=norm
    ),
    "pgd-dlr": lambda eps, norm, quick: PGD(eps, loss="dlr", restarts=1 if quick else 5, norm=norm),
    "apgd-ce": lambda eps, norm, quick: APGD(eps, 10 if quick else 100, norm=norm),
    "apgd-dlr": lambda eps, norm, quick: APGD(eps, 10 if quick else 100, "dlr", norm=norm),
    "apgd-t": lambda eps, norm, quick: APGD(
        eps, 10 if quick else 100, "dlr-targeted", targets=2 if quick else 9, norm=norm
    ),
    "intermediate": lambda eps, norm, quick: IntermediateStates(
        eps, restarts=1, states=(1, 4) if quick else (1, 2, 4, 8), norm=norm
    ),
    "fab": lambda eps, norm, quick: FAB(5 if quick else 20, norm=norm),
    "square": lambda eps, norm, quick: Square(eps, 100 if quick else 1000, norm=norm),
    "hopskipjump": lambda eps, norm, quick: HopSkipJump(
        2 if quick else 10, 20 if quick else 30, norm=norm
    ),
    "pixle": lambda eps, norm, quick: Pixle(2 if quick else 10),
    "transfer": lambda eps, norm, quick: Transfer(PGD(eps, norm=norm)),
}
_MAKERS: Registry[Maker] = Registry("attack", _OWN)

# Controls, one step, white box with three losses, through unfinished solves, smallest distance,
# black box, answers only, and the paper's own. Pixle has another budget (pixels, not a radius):
# it is asked for by name.
STANDARD = (
    "noise",
    "random-search",
    "fgsm",
    "pgd",
    "pgd-margin",
    "apgd-ce",
    "apgd-t",
    "intermediate",
    "fab",
    "square",
    "hopskipjump",
    "transfer",
)


def register_attack(name: str, make: Maker) -> None:
    """Make an attack known by name: to `named`, `suite` and `ibnn attack --attacks NAME`.

    Args:
        name: in small letters, without commas.
        make: gives the attack for a radius, a norm, and whether it is to be quick (a tenth of the
            work, for smoke tests).

    Raises:
        ValueError: another attack has this name.
    """
    if name == "standard":
        raise ValueError("attack 'standard' is registered already, as the list of the usual ones")
    _MAKERS.register(name, make)


def attack_names() -> tuple[str, ...]:
    """Every attack `named` knows."""
    return tuple(_MAKERS)


def named(name: str, eps: float, norm: Norm = "linf", quick: bool = False) -> Attack:
    """One attack of `attack_names()` with its usual settings; those without a radius ignore `eps`.

    >>> named("pgd", 0.1).name
    'pgd-linf'
    """
    make = _MAKERS.find(name)
    check_ball(norm)
    check_eps(eps)
    return make(eps, norm, quick)


def standard(eps: float, norm: Norm = "linf", quick: bool = False) -> list[Attack]:
    """What `ibnn attack --attacks standard` runs: every kind of attack in one norm."""
    return [named(name, eps, norm, quick) for name in STANDARD]


def suite(names: str, eps: float, norm: Norm = "linf", quick: bool = False) -> list[Attack]:
    """Attacks from a text: names with commas between, "standard" for its whole list.

    >>> [attack.name for attack in suite("pgd,pixle", 0.1, "l2")]
    ['pgd-l2', 'pixle']
    """
    wanted = [name.strip() for name in names.split(",")]
    flat = [one for name in wanted for one in (STANDARD if name == "standard" else (name,))]
    for name in flat:
        if name not in _MAKERS:
            known = ("standard", *attack_names())
            raise ValueError(f"attacks is {name!r}, {expected(name, known)}")
    return [named(name, eps, norm, quick) for name in dict.fromkeys(flat)]
