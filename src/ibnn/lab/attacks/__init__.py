"""Attacks on any torch model: images in [0, 1] in, one verdict per image out.

Written here, checked against others. A dependency would have saved the files `apgd`, `fab`,
`square` and `pixle`, but torchattacks pins `requests` to an old release, and it and pyautoattack
ask for torchvision, which the laboratory does without; foolbox has no APGD and no Square; none
gives success, distance and queries per image, takes a generator, or puts the model back as it
was, so each would need a wrapper of about its own size. Instead every attack is held to exact
answers (linear models, brute force), and a slow test compares robust accuracies with the
three libraries where they are installed.
"""

from ibnn.lab.attacks.apgd import APGD
from ibnn.lab.attacks.attack import Attack, Attacked
from ibnn.lab.attacks.ball import Norm
from ibnn.lab.attacks.certificate import Certificate, certify
from ibnn.lab.attacks.evaluate import evaluate
from ibnn.lab.attacks.evaluation import Evaluation
from ibnn.lab.attacks.fab import FAB
from ibnn.lab.attacks.frozen import frozen
from ibnn.lab.attacks.hopskipjump import HopSkipJump
from ibnn.lab.attacks.noise import Noise, RandomSearch
from ibnn.lab.attacks.pgd import PGD, fgsm
from ibnn.lab.attacks.pixle import Pixle
from ibnn.lab.attacks.square import Square
from ibnn.lab.attacks.suites import named, standard, suite
from ibnn.lab.attacks.transfer import Transfer

__all__ = [
    "APGD",
    "FAB",
    "PGD",
    "Attack",
    "Attacked",
    "Certificate",
    "Evaluation",
    "HopSkipJump",
    "Noise",
    "Norm",
    "Pixle",
    "RandomSearch",
    "Square",
    "Transfer",
    "certify",
    "evaluate",
    "fgsm",
    "frozen",
    "named",
    "standard",
    "suite",
]
