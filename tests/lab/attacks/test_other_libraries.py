"""Our attacks beside other people's, on one small trained network: robust accuracies agree.

Needs what does not install beside a CPU build of torch by itself (they ask for torchvision or
more than the tests need), so it runs where someone has put it:
`pip install --no-deps --target DIR pyautoattack==0.2.0 torchattacks==3.5.1 foolbox==3.3.4
eagerpy GitPython gitdb smmap requests urllib3 certifi idna charset-normalizer`, then
`PYTHONPATH=DIR make test-slow`.
"""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ibnn.lab.attacks import APGD, FAB, PGD, Attack, HopSkipJump, Pixle, Square

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

BALLS = [("linf", 0.08), ("l2", 0.4)]
CALLED = {"linf": "Linf", "l2": "L2"}


@pytest.fixture(scope="module")
def subject() -> tuple[nn.Module, Tensor, Tensor]:
    """A convolutional network trained on the bundled digits, and 100 images it has not seen."""
    from sklearn.datasets import load_digits

    bunch: Any = load_digits()
    x = torch.tensor(bunch.images[:, None] / 16, dtype=torch.float32)
    y = torch.tensor(bunch.target)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3, stride=2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(72, 10),
        )
        optimizer = torch.optim.Adam(model.parameters(), 3e-3)
        for _ in range(15):
            for batch in torch.randperm(1400).split(100):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
                optimizer.step()
    return model.eval(), x[1400:1500], y[1400:1500]


def ours(attack: Attack, subject: tuple[nn.Module, Tensor, Tensor], eps: float) -> float:
    model, x, y = subject
    found = attack(model, x, y)
    return 1 - float((found.success & (found.distance <= eps * (1 + 1e-5))).double().mean())


def theirs(adversarial: Tensor, subject: tuple[nn.Module, Tensor, Tensor]) -> float:
    model, _, y = subject
    with torch.no_grad():
        return float((model(adversarial).argmax(1) == y).double().mean())


# Both sides start at random points: images whose fate hangs on it are a few of a hundred.
FEW = 0.03


@pytest.mark.parametrize(("norm", "eps"), BALLS)
@pytest.mark.parametrize("loss", ["ce", "dlr-targeted"])
def test_apgd(subject, norm, eps, loss):
    module = pytest.importorskip("pyautoattack.autopgd_base")
    model, x, y = subject
    settings = {"n_iter": 40, "norm": CALLED[norm], "eps": eps, "seed": 0, "device": "cpu"}
    if loss == "ce":
        other = module.APGDAttack(model, loss="ce", **settings)
    else:
        other = module.APGDAttack_targeted(model, **settings)
    found = ours(APGD(eps, 40, loss, norm=norm), subject, eps)
    assert abs(found - theirs(other.perturb(x, y), subject)) <= FEW


@pytest.mark.parametrize(("norm", "eps"), BALLS)
def test_fab(subject, norm, eps):
    module = pytest.importorskip("pyautoattack.fab_pt")
    model, x, y = subject
    other = module.FABAttack_PT(model, norm=CALLED[norm], n_iter=20, eps=eps, seed=0, device="cpu")
    found = ours(FAB(20, norm=norm), subject, eps)
    assert abs(found - theirs(other.perturb(x, y), subject)) <= FEW


@pytest.mark.parametrize(("norm", "eps"), BALLS)
def test_square(subject, norm, eps):
    module = pytest.importorskip("pyautoattack.square")
    model, x, y = subject
    other = module.SquareAttack(
        model,
        p_init=0.8,
        n_queries=500,
        norm=CALLED[norm],
        eps=eps,
        seed=0,
        device="cpu",
        resc_schedule=True,
    )
    # Theirs draws one square for a whole batch; ours must not be weaker for drawing its own.
    assert ours(Square(eps, 500, norm=norm), subject, eps) <= FEW + theirs(
        other.perturb(x, y), subject
    )


@pytest.mark.parametrize(("norm", "eps"), BALLS)
def test_pgd(subject, norm, eps):
    torchattacks = pytest.importorskip("torchattacks")
    model, x, y = subject
    kind = torchattacks.PGD if norm == "linf" else torchattacks.PGDL2
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        adversarial = kind(model, eps=eps, alpha=eps / 4, steps=20)(x, y)
    found = ours(PGD(eps, 20, norm=norm), subject, eps)
    assert abs(found - theirs(adversarial, subject)) <= FEW


@pytest.mark.parametrize("mapping", ["similarity", "random"])
def test_pixle(subject, mapping):
    torchattacks = pytest.importorskip("torchattacks")
    model, x, y = subject
    np.random.seed(0)  # noqa: NPY002  (it takes no generator)
    other = torchattacks.Pixle(
        model,
        x_dimensions=3,
        y_dimensions=3,
        pixel_mapping=mapping,
        restarts=10,
        max_iterations=5,
    )
    attack = Pixle(mapping=mapping, mirrored=mapping == "similarity")
    found, expected = ours(attack, subject, attack.budget), theirs(other(x, y), subject)
    # Patches are random: two standard deviations of the difference of two shares of 100
    assert abs(found - expected) <= 2 * (2 * 0.5 * 0.5 / 100) ** 0.5


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_smallest_distances(subject, norm):
    foolbox = pytest.importorskip("foolbox")
    model, x, y = subject
    right = model(x).argmax(1) == y
    x, y = x[right], y[right]
    wrapped = foolbox.PyTorchModel(model, bounds=(0, 1))
    # Its l_2 version of FMN stops at twice the distance of its own DDN here: not a yardstick.
    kind = foolbox.attacks.LInfFMNAttack if norm == "linf" else foolbox.attacks.DDNAttack
    _, images, success = kind(steps=200)(wrapped, x, y, epsilons=None)
    difference = (images - x).flatten(1)
    expected = difference.abs().amax(1) if norm == "linf" else difference.norm(dim=1)
    found = FAB(20, norm=norm)(model, x, y).distance
    # Both find some point of the boundary, never one beyond the nearest; neither is always best.
    ratio = found[success] / expected[success]
    assert 0.95 < ratio.median() < 1.02

    jumped = HopSkipJump(norm=norm)(model, x, y).distance
    assert (jumped[success] / expected[success]).median() < 1.2
