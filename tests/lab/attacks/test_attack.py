"""What every attack owes its caller: honest verdicts, and a model left as it was."""

import hypothesis
import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from ibnn.lab.attacks import FAB, PGD, Attack, Attacked, Noise, Square, attack_names
from ibnn.lab.training.ball import distance
from tests.lab.attacks import exact

SHAPE = (2, 5, 4)


def network(seed: int = 0, shape: tuple[int, int, int] = SHAPE) -> nn.Module:
    channels, height, width = shape
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(channels, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.Tanh(),
            nn.Flatten(),
            nn.Dropout(0.5),
            nn.Linear(4 * height * width, 4),
        )


def some_images(count: int = 12, shape: tuple[int, ...] = SHAPE) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(count, *shape, generator=generator)
    return x, network().eval()(x).argmax(1)


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("name", attack_names())
def test_success_means_wrong_in_a_fresh_forward(name, norm):
    model, (x, y) = network(), some_images()
    found = exact.quick(name, 0.3, norm)(model, x, y, batch_size=5)
    with torch.no_grad():
        wrong = model.eval()(found.images).argmax(1) != y
    assert torch.equal(found.success, wrong)
    assert found.images.shape == x.shape
    assert found.queries.dtype == torch.int64
    assert (found.queries > 0).all()
    assert (found.distance[~found.success] >= 0).all()
    if name not in ("noise", "pixle"):  # too weak for this model: nothing to test on
        assert found.success.any()


@hypothesis.given(
    name=st.sampled_from(attack_names()),
    norm=st.sampled_from(["linf", "l2"]),
    eps=st.sampled_from([0.01, 0.2, 3.0]),
    seed=st.integers(0, 100),
    shape=st.sampled_from([(1, 3, 3), (2, 5, 4), (3, 4, 6)]),
)
@hypothesis.settings(max_examples=40)
def test_images_stay_in_the_box_and_in_their_ball(name, norm, eps, seed, shape):
    attack = exact.quick(name, eps, norm)
    model = network(seed, shape).eval()
    # Black, white and grey: the box is met on both sides.
    generator = torch.Generator().manual_seed(seed)
    x = (2 * torch.rand(4, *shape, generator=generator) - 0.5).clamp(0, 1)
    found = attack(model, x, model(x).argmax(1), generator=generator)
    assert (found.images >= 0).all()
    assert (found.images <= 1).all()
    away = distance(attack.norm, found.images - x)
    # float32 rounds x + d once per pixel: 6e-8 each, times sqrt(72) in l_2
    assert (away <= attack.budget + 1e-6).all()
    reached = found.distance < torch.inf
    assert torch.equal(away[reached].float(), found.distance[reached])
    assert (found.success | (attack.budget < torch.inf) | ~reached).all()


@pytest.mark.parametrize("name", attack_names())
def test_the_model_is_left_as_it_was(name):
    model, (x, y) = network(), some_images()
    model.train()
    model[1].eval()
    model[0].weight.requires_grad_(False)
    modes = [module.training for module in model.modules()]
    flags = [parameter.requires_grad for parameter in model.parameters()]
    state = {key: value.clone() for key, value in model.state_dict().items()}
    before, x_before = torch.random.get_rng_state(), x.clone()
    exact.quick(name, 0.3, "linf")(model, x, y)
    assert [module.training for module in model.modules()] == modes
    assert [parameter.requires_grad for parameter in model.parameters()] == flags
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.is_grad_enabled()
    assert torch.equal(x, x_before)


def test_also_after_an_exception():
    class Breaks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.calls = nn.Linear(4, 2), 0

        def forward(self, x: Tensor) -> Tensor:
            torch.rand(1)
            self.calls += 1
            if self.calls == 3:
                raise RuntimeError("broken")
            return self.layer(x.flatten(1))

    model = Breaks().train()
    before = torch.random.get_rng_state()
    x = torch.full((2, 1, 2, 2), 0.5)
    with torch.no_grad(), pytest.raises(RuntimeError, match="broken"):
        PGD(0.01, early_stop=False)(model, x, model(x).argmax(1))
    assert model.training
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert not torch.equal(torch.random.get_rng_state(), before)  # our own forward drew a number
    assert torch.is_grad_enabled()


def test_gradients_are_found_in_inference_mode():
    model, (x, y) = network(), some_images()
    expected = PGD(0.3)(model, x, y)
    with torch.inference_mode():
        found = PGD(0.3)(model, x + 0, y + 0)
        assert torch.is_inference_mode_enabled()
    assert torch.equal(found.success, expected.success)


@pytest.mark.parametrize("name", attack_names())
def test_the_same_seed_gives_the_same_images(name):
    model, (x, y) = network(), some_images()
    attack = exact.quick(name, 0.1, "l2")
    first, second, other = (
        attack(model, x, y, generator=torch.Generator().manual_seed(seed)) for seed in (5, 5, 6)
    )
    assert torch.equal(first.images, second.images)
    assert torch.equal(first.queries, second.queries)
    if name not in ("fgsm", "fab"):  # nothing random in them
        assert not torch.equal(first.images, other.images)


@pytest.mark.parametrize("attack", [PGD(0.1, random_start=False), FAB(5, norm="l2")])
def test_batches_change_nothing_but_randomness(attack):
    model, (x, y) = network().double(), some_images()
    whole = attack(model, x.double(), y, batch_size=12)
    parts = attack(model, x.double(), y, batch_size=5)
    assert torch.equal(whole.success, parts.success)
    assert torch.equal(whole.queries, parts.queries)
    # sums in another order; an image follows its gradient for at most ten steps
    torch.testing.assert_close(whole.images, parts.images, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", attack_names())
def test_images_already_wrong_are_not_attacked(name):
    model, (x, y) = network(), some_images()
    y[::2] = (y[::2] + 1) % 4
    found = exact.quick(name, 0.3, "linf")(model, x, y)
    assert found.success[::2].all()
    assert (found.queries[::2] == 0).all()
    assert (found.distance[::2] == 0).all()
    assert torch.equal(found.images[::2], x[::2])
    assert (found.queries[1::2] > 0).all()


@pytest.mark.parametrize("attack", [PGD(0.0), Square(0.0, 5), Noise(0.0)])
def test_no_radius_no_change(attack):
    model, (x, y) = network(), some_images()
    y[0] = (y[0] + 1) % 4
    found = attack(model, x, y)
    assert torch.equal(found.images, x)
    assert found.success.tolist() == [True] + [False] * 11


def test_a_claim_of_success_is_checked():
    class Boasts(Attack):
        eps = 1.0

        @property
        def name(self) -> str:
            return "boasts"

        def _attack(self, model, x, y, generator):
            yes = torch.ones_like(y, dtype=torch.bool)
            return Attacked(x, yes, torch.zeros(len(x)), torch.ones_like(y))

    assert not Boasts()(network(), *some_images()).success.any()


def test_no_images_are_no_trouble():
    x, y = some_images()
    found = PGD(0.1)(network(), x[:0], y[:0])
    assert found.images.shape == (0, *SHAPE)
    assert found.success.shape == found.queries.shape == (0,)


def test_a_gradient_that_is_no_number_costs_no_image():
    class Root(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            value = (x - 0.5).flatten(1).sum(1).square().sqrt()  # 0 * inf at the middle
            return torch.stack([value, value - 1], 1)

    x = torch.full((1, 1, 2, 2), 0.5)
    found = PGD(0.1, random_start=False)(Root(), x, torch.tensor([0]))
    assert torch.isfinite(found.images).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": torch.full((2, 1, 2, 2), 1.5)}, "x has values from 1.5 to 1.5, expected 0 to 1"),
        ({"x": torch.full((2, 1, 2, 2), torch.nan)}, "x has values from nan to nan"),
        ({"x": torch.zeros(2, 1, 2, 2, dtype=torch.uint8)}, r"x is torch.uint8 of shape \(2, 1,"),
        ({"x": torch.zeros(2, 1, 2, 2).double()}, "x is torch.float64, expected the type of the"),
        ({"y": torch.zeros(3, dtype=torch.long)}, r"y is torch.int64 of shape \(3,\), expected 2"),
        ({"y": torch.zeros(2)}, r"y is torch.float32 of shape \(2,\), expected 2 integer"),
        ({"y": torch.tensor([0, 7])}, "y has a label 7, expected 0 to 2: model gives 3 classes"),
        ({"y": torch.tensor([0, -1])}, "y has a label -1, expected 0 or more"),
        ({"batch_size": 0}, "batch_size is 0, expected at least 1"),
        ({"model": exact.linear((1, 2, 2), 1)}, r"logits of shape \(2, 1\) for 2 images"),
    ],
)
def test_wrong_arguments_are_named(change, message):
    arguments = {
        "model": exact.linear((1, 2, 2), 3),
        "x": torch.zeros(2, 1, 2, 2),
        "y": torch.zeros(2, dtype=torch.long),
        **change,
    }
    with pytest.raises(ValueError, match=message):
        PGD(0.1)(**arguments)


def test_a_function_is_no_model():
    with pytest.raises(TypeError, match=r"model is a function, expected a torch.nn.Module"):
        PGD(0.1)(lambda x: x, torch.zeros(1, 2), torch.zeros(1, dtype=torch.long))
