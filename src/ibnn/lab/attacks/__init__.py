"""Attacks on any torch model: images in [0, 1] in, one verdict per image out.

Written here, checked against others. A library would have saved some of these files, but
torchattacks asks for torchvision, which the laboratory does without, and for a `requests` of 2020;
foolbox has no APGD, FAB, Square or Pixle; pyautoattack has no PGD, Pixle or attack on labels alone,
and reseeds torch's global generator. None gives success, distance and queries per image, takes a
generator, or puts the model back as it was, so each would need a wrapper of about the size of what
it saves. Instead every attack is held to exact answers (linear models, brute force), and a slow
test compares robust accuracies and distances with all three where they are installed.
"""

from ibnn.lab.attacks.apgd import APGD
from ibnn.lab.attacks.attack import Attack, Attacked
from ibnn.lab.attacks.certificate import Certificate, certify
from ibnn.lab.attacks.evaluate import evaluate
from ibnn.lab.attacks.evaluation import Evaluation
from ibnn.lab.attacks.fab import FAB
from ibnn.lab.attacks.frozen import frozen
from ibnn.lab.attacks.hopskipjump import HopSkipJump
from ibnn.lab.attacks.intermediate import IntermediateStates
from ibnn.lab.attacks.noise import Noise, RandomSearch
from ibnn.lab.attacks.pgd import PGD, fgsm
from ibnn.lab.attacks.pixle import Pixle
from ibnn.lab.attacks.square import Square
from ibnn.lab.attacks.suites import attack_names, named, register_attack, standard, suite
from ibnn.lab.attacks.transfer import Transfer
from ibnn.lab.training.ball import Norm

__all__ = [
    "APGD",
    "FAB",
    "PGD",
    "Attack",
    "Attacked",
    "Certificate",
    "Evaluation",
    "HopSkipJump",
    "IntermediateStates",
    "Noise",
    "Norm",
    "Pixle",
    "RandomSearch",
    "Square",
    "Transfer",
    "attack_names",
    "certify",
    "evaluate",
    "fgsm",
    "frozen",
    "named",
    "register_attack",
    "standard",
    "suite",
]
