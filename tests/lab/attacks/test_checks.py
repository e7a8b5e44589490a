"""Each check fails the model that was built to fail it, and no plain model."""

import copy

import pytest
import torch
from torch import Tensor, nn

import ibnn
from ibnn.lab.attacks import PGD, Attacked
from ibnn.lab.attacks.checks import CHECKS, Check, Target, forward, gradients, strength
from ibnn.lab.attacks.frozen import frozen
from ibnn.lab.stats.proportion import tail, weaker, wilson
from tests.lab.attacks.digits import BIAS, EPS, images, trained


def run(check, model: nn.Module, *, norm="linf", eps=EPS, **about) -> Check:
    x, y = images()
    with frozen(model):
        return check(Target(model, x, y, eps, norm, **about))


@pytest.mark.parametrize(
    ("neuron", "norm"),
    # the implicit one in l_inf is in test_evaluate
    [("standard", "linf"), ("standard", "l2"), ("implicit", "l2")],
)
def test_a_plain_model_passes_them_all(neuron, norm):
    model, (x, y) = trained(neuron), images()
    eps = EPS if norm == "linf" else 0.4
    results = [(attack, attack(model, x, y)) for attack in (PGD(eps, norm=norm),)]
    with frozen(model):
        target = Target(model, x, y, eps, norm, results)
        found = [check(target) for check in CHECKS]
    assert 0.2 < target.accuracy(target.broken(PGD(eps, norm=norm))) < 0.8  # worth checking
    none = {check.name for check in found if check.passed is None}
    assert [str(check) for check in found if check.passed is False] == []
    about_layers = {
        "equations are solved on adversarial images",
        "other gradients do no better",
    }
    assert none == (about_layers if neuron == "standard" else set())
    assert all(check.numbers for check in found if check.passed)


class Memory(nn.Module):
    """A plain network that knows the images it will be asked about, and what is near them."""

    def __init__(self):
        super().__init__()
        self.network = trained()
        known, labels = images()
        self.known, self.answers = known.flatten(1), nn.functional.one_hot(labels, 10).float()

    def recall(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The answer for the nearest known image, and how far it is in l_inf."""
        far = (x.detach().flatten(1)[:, None] - self.known).abs().amax(2)
        return 20 * self.answers[far.argmin(1)], far.amin(1)


class Guard(Memory):
    """Breaks under small changes; remembers the answer where it meets a large one."""

    def forward(self, x: Tensor) -> Tensor:
        answer, far = self.recall(x)
        return torch.where(far[:, None] > 1.2 * EPS, answer, self.network(x))


class Learner(Memory):
    """Remembers every answer once it has been asked often enough."""

    def __init__(self, patience: int):
        super().__init__()
        self.patience, self.asked = patience, 0

    def forward(self, x: Tensor) -> Tensor:
        self.asked += 1
        return self.recall(x)[0] if self.asked > self.patience else self.network(x)


class Reverse(torch.autograd.Function):
    """The identity with the wrong sign in its gradient."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx, *gradient: Tensor) -> Tensor:
        return -gradient[0]


class Liar(Memory):
    """The gradient points the wrong way everywhere but on the images themselves."""

    def forward(self, x: Tensor) -> Tensor:
        known = self.recall(x)[1] == 0
        return torch.where(known[:, None], self.network(x), self.network(Reverse.apply(x)))


class Rounding(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (16 * x).round() / 16


class Saturated(nn.Module):
    """Logits whose softmax is 0 or 1 in float32."""

    def forward(self, x: Tensor) -> Tensor:
        return 1e4 * x


class NotANumber(nn.Module):
    """The square root of 0 has no derivative."""

    def forward(self, x: Tensor) -> Tensor:
        return (x - x.amin((1, 2, 3), keepdim=True)).sqrt().square()


def rounded() -> nn.Module:
    return nn.Sequential(Rounding(), trained())


def test_a_model_that_resists_large_changes_only_fails_to_fall_with_eps():
    found = run(strength.falls_with_eps, Guard())
    assert found.passed is False
    assert "0.14 after 0.07 is weaker" in found.sentence


def test_a_model_that_stands_an_unbounded_attack_hides():
    found = run(strength.unbounded, Guard())
    assert found.passed is False
    assert found.numbers["survivors"] > 50


def test_a_model_that_hardens_while_it_is_asked_fails_more_steps():
    assert run(strength.more_steps, Learner(patience=20)).passed is False


def test_a_model_that_hardens_while_it_is_asked_fails_more_restarts():
    assert run(strength.more_restarts, Learner(patience=20)).passed is False


def test_rises_within_chance_are_told(monkeypatch):
    """Five restarts that break three images fewer than one: too few to fail, not passed over."""
    broken = [torch.arange(len(images()[0])) < count for count in (20, 17)]
    monkeypatch.setattr(Target, "broken", lambda *_, **__: broken.pop(0))
    found = run(strength.more_restarts, trained())
    assert found.passed is True
    assert found.sentence.endswith("at 5 restarts; rises are within chance")


def test_one_step_must_not_beat_many():
    found = run(strength.iterative, Liar())
    assert found.passed is False
    assert "ten steps after one step is weaker" in found.sentence


@pytest.mark.parametrize("hidden", [rounded, Liar])
def test_black_box_must_not_beat_white_box(hidden):
    found = run(strength.white_box, hidden())
    assert found.passed is False
    assert "stronger: " in found.sentence


def test_transfer_from_the_twin_must_not_beat_white_box():
    """Gradients that vanish in the implicit layer are still there in its twin."""
    found = run(strength.white_box, hide(trained("implicit")), eps=0.1)
    assert "transfer from the lam = 0 twin" in found.sentence.partition("stronger: ")[2]


@pytest.mark.parametrize(
    ("model", "what"),
    [
        (rounded, "ce zero"),
        (lambda: nn.Sequential(trained(), Saturated()), "ce zero"),
        (lambda: nn.Sequential(NotANumber(), trained()), "margin not finite"),
    ],
)
def test_gradients_that_are_not_there_are_counted(model, what):
    found = run(gradients.present, model())
    assert found.passed is False
    assert found.numbers[what] > 20


class StraightThrough(nn.Module):
    """Rounding whose gradient pretends that it is not."""

    def forward(self, x: Tensor) -> Tensor:
        return x + ((16 * x).round() / 16 - x).detach()


@pytest.mark.parametrize("kind", ["straight-through", "jfb"])
def test_a_gradient_that_is_not_the_derivative_is_found(kind):
    if kind == "jfb":
        model = trained("implicit")
        model[1] = again(model[1], adjoint="jfb")
    else:
        model = nn.Sequential(StraightThrough(), trained())
    assert run(gradients.finite_differences, model).passed is False


def again(layer: nn.Module, **options) -> nn.Module:
    """The same implicit layer with other settings."""
    made = ibnn.Linear(64, 16, on_failure="ignore", **BIAS, **options)
    made.load_state_dict(layer.state_dict())
    return made


@pytest.mark.parametrize("options", [{"max_steps": 1}, {"atol": 0.1, "rtol": 0.1}])
def test_a_loose_solve_is_found(options):
    model = trained("implicit")
    model[1] = again(model[1], solver="gradient", **options)
    found = run(forward.solved, model)
    assert found.passed is False
    assert found.numbers["residual"] > 10 * found.numbers["allowed"]


def test_a_loose_solve_does_not_survive_a_fresh_forward_pass():
    model = trained("implicit")
    model[1] = again(model[1], solver="gradient", max_steps=1)
    found = run(forward.verified, model)
    assert found.passed is False
    assert found.numbers["changed"] > 0


class Hidden(ibnn.Linear):
    """No gradient from the implicit adjoint, the true one from any other."""

    def add_implicit_bias(self, y: Tensor) -> Tensor:
        z = super().add_implicit_bias(y)
        return z.detach() + 0 * y if self.adjoint == "implicit" else z


def hide(model: nn.Sequential) -> nn.Sequential:
    model = copy.deepcopy(model)
    hidden = Hidden(64, 16, **BIAS)
    hidden.load_state_dict(model[1].state_dict())
    model[1] = hidden
    return model


def test_gradients_taken_otherwise_must_not_do_better():
    found = run(strength.adaptive, hide(trained("implicit")))
    assert found.passed is False
    assert "Jacobian-free" in found.sentence.partition("stronger: ")[2]
    assert "unrolled" in found.sentence.partition("stronger: ")[2]


class Crowd(nn.Module):
    """An image's answer depends on its batch: the mean over the batch is taken away."""

    def __init__(self):
        super().__init__()
        self.network = trained()

    def forward(self, x: Tensor) -> Tensor:
        logits = self.network(x)
        return logits - 2 * logits.mean(0, keepdim=True)


def test_a_model_that_sees_the_batch_changes_its_verdict():
    found = run(forward.verified, Crowd())
    assert found.passed is False
    assert found.numbers["changed"] > 0
    assert found.numbers["outside"] == 0


@pytest.mark.parametrize("where", ["ball", "range"])
def test_images_outside_their_ball_or_range_are_found(where):
    model, (x, y) = trained(), images()
    attack = PGD(EPS)
    result = attack(model, x, y)
    moved = result.images.clone()
    moved[3] = (x[3] + 2 * EPS).clamp(0, 1) if where == "ball" else x[3].clone()
    if where == "range":
        moved[3, 0, 0, 0] = -0.01
    with torch.no_grad():
        success = model(moved).argmax(1) != y
    spoilt = Attacked(moved, success, result.distance, result.queries)
    found = run(forward.verified, model, results=[(attack, spoilt)])
    assert found.passed is False
    assert found.numbers["outside"] == 1
    assert found.numbers["changed"] == 0


def test_a_few_images_are_no_failure_and_seven_are():
    none = torch.zeros(100, dtype=torch.bool)
    for count, certain in ((6, False), (7, True)):
        some = none.clone()
        some[:count] = True
        assert (weaker(none, some) < 0.01) == certain
        assert weaker(some, none) == 1
    assert weaker(none, none) == 1


def test_tails_and_intervals_against_scipy():
    from scipy.stats import binom, binomtest

    for hits, count, chance in ((0, 5, 0.5), (3, 20, 0.01), (15, 20, 0.5), (90, 1000, 0.1)):
        assert tail(hits, count, chance) == pytest.approx(binom.sf(hits - 1, count, chance))
        expected = binomtest(hits, count).proportion_ci(method="wilson")
        assert wilson(hits, count) == pytest.approx((expected.low, expected.high), abs=1e-6)


def test_an_implicit_layer_that_is_never_called_solves_nothing():
    class Unused(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.spare = trained(), ibnn.Linear(2, 2, lam=0.05)

        def forward(self, x: Tensor) -> Tensor:
            return self.used(x)

    check = run(forward.solved, Unused())
    assert check.passed is None
    assert "meets no implicit layer" in check.sentence
