"""An evaluation counts what attacks break, keeps it in files, and leaves the model alone."""

import json

import pytest
import torch
from torch import nn

from ibnn.lab.attacks import FAB, PGD, Evaluation, Transfer, certify, evaluate
from ibnn.lab.attacks.checks import CHECKS
from ibnn.lab.attacks.evaluation_figure import draw, save
from ibnn.lab.models import Perceptron
from ibnn.lab.plotting import style
from tests.lab.attacks.digits import EPS, images, trained

LIGHT = "fgsm,pgd,fab,noise,transfer"


def light(model: nn.Module, attacks=LIGHT, **options) -> Evaluation:
    x, y = images()
    options = {"eps": EPS, "checks": False, "quick": True, **options}
    return evaluate(model, x, y, attacks=attacks, **options)


@pytest.fixture(scope="module")
def whole() -> Evaluation:
    """With all checks."""
    return light(trained("implicit"), checks=True)


def test_every_image_is_counted_once_per_attack_and_once_in_all(whole):
    x, y = images()
    model = trained("implicit")
    right = model(x).argmax(1) == y
    assert whole.right == "".join(str(int(flag)) for flag in right)
    assert whole.clean_accuracy == float(right.double().mean())
    assert [row.name for row in whole.rows] == [
        "fgsm-linf",
        "pgd-linf",
        "fab-linf",
        "noise-linf",
        "transfer(pgd-linf)",
    ]
    broken = torch.tensor(whole.success())
    assert broken.shape == (5, 100)
    assert not broken[:, ~right].any()  # what was wrong before is not broken
    for row, flags in zip(whole.rows, broken, strict=True):
        assert row.robust_accuracy == pytest.approx(float((right & ~flags).double().mean()))
        assert row.interval[0] <= row.robust_accuracy <= row.interval[1]
        assert (row.median_distance is None) == (not flags.any())
        assert 0 < (row.median_distance or EPS) <= EPS + 1e-6
        assert row.median_queries >= 1
        assert row.seconds > 0
    assert whole.robust_accuracy == pytest.approx(float((right & ~broken.any(0)).double().mean()))
    assert whole.robust_accuracy <= min(row.robust_accuracy for row in whole.rows)
    assert whole.lam == [-1.0]


def test_in_a_large_ball_rounding_does_not_turn_broken_images_into_right_ones():
    """A length of 8 in float32 is known to 4e-7 at best, and a sum of 12,288 squares to less."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 64 * 64, 10))
    x = 0.3 + 0.4 * torch.rand(40, 3, 64, 64)
    y = model(x).argmax(1)
    attack = PGD(8.0, norm="l2", loss="margin")
    found = evaluate(model, x, y, eps=8.0, norm="l2", attacks=[attack], checks=False)
    assert attack(model, x, y).success.all()
    assert found.robust_accuracy == 0


def test_the_attack_alone_breaks_the_same_images(whole):
    x, y = images()
    model = trained("implicit")
    found = PGD(EPS)(model, x, y, generator=torch.Generator().manual_seed(0))
    assert (found.success & (model(x).argmax(1) == y)).tolist() == whole.success()[1]


def test_all_checks_come_with_it_and_a_plain_model_passes(whole):
    assert len(whole.checks) == len(CHECKS)
    assert whole.failed == []
    assert all(check.passed for check in whole.checks)
    assert all(check.sentence for check in whole.checks)


def test_json_and_back_is_the_same_evaluation(whole, tmp_path):
    save(whole, tmp_path)
    text = (tmp_path / "evaluation.json").read_text()
    assert Evaluation.from_json(text) == whole
    values = json.loads(text) | {"version": 99}
    with pytest.raises(ValueError, match="evaluation has version 99, expected 1"):
        Evaluation.from_dict(values)


def test_the_text_has_the_table_the_certificate_and_the_checks(whole, tmp_path):
    save(whole, tmp_path)
    text = (tmp_path / "evaluation.txt").read_text()
    assert "Sequential (lam -1): 100 images, eps 0.07 in linf" in text
    for row in whole.rows:
        assert row.name in text
    assert "certified accuracy: 96.0 % at 0, " in text
    assert text.count("\n  pass: ") == len(CHECKS)
    assert "no check failed" in text


@pytest.mark.parametrize(("neuron", "colour"), [("implicit", 1), ("standard", 0)])
def test_the_figure_has_the_neurons_colour_and_a_bar_per_attack(neuron, colour, whole):
    evaluation = whole if neuron == "implicit" else light(trained(), "pgd")
    bars, curve = draw(evaluation).axes
    assert len(bars.patches) == len(evaluation.rows) + 2
    own = (style.STANDARD, style.IMPLICIT)[colour]
    assert all(style.to_hex(bar.get_facecolor()[:3]) == own for bar in bars.patches)
    labels = [line.get_label() for line in curve.lines]
    assert labels == ["PGD"] * bool(evaluation.checks) + ["certified", "all attacks in the ball"]


def test_a_smallest_distance_counts_only_within_eps():
    x, y = images()
    near, far = (light(trained(), [FAB(5)], eps=eps).rows[0] for eps in (0.03, 0.3))
    distance = FAB(5)(trained(), x, y, generator=torch.Generator().manual_seed(0)).distance
    right = trained()(x).argmax(1) == y
    assert near.broken.count("1") == int((right & (distance <= 0.03)).sum())
    assert near.broken.count("1") < far.broken.count("1")


def test_another_ball_is_shown_but_not_counted():
    found = light(trained(), "pgd,pixle")
    pgd, pixle = found.rows
    assert (pgd.within_ball, pixle.within_ball) == (True, False)
    assert found.robust_accuracy == pgd.robust_accuracy
    assert "pixle (another ball)" in found.text()


def test_a_standard_network_has_no_twin():
    assert [row.name for row in light(trained(), "pgd,transfer").rows] == ["pgd-linf"]
    other = Transfer(PGD(EPS), trained("implicit"))
    assert [row.name for row in light(trained(), [other]).rows] == ["transfer(pgd-linf)"]


def test_two_attacks_of_one_name_are_told_apart():
    rows = light(trained(), [PGD(EPS), PGD(EPS, restarts=2)]).rows
    assert [row.name for row in rows] == ["pgd-linf", "pgd-linf (2)"]


@pytest.mark.parametrize("neuron", ["standard", "implicit"])
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_what_is_certified_is_never_broken(neuron, norm):
    """Image by image: whatever an attack broke lies beyond the image's proven radius."""
    (x, y), model = images(), trained(neuron)
    certificate = certify(model, x, y, norm)
    for eps in (0.01, 0.03) if norm == "linf" else (0.05, 0.2):
        found = light(model, "pgd,apgd-t,fab", norm=norm, eps=eps)
        broken = torch.tensor(found.success()).any(0)
        assert not (broken & (certificate.radius > eps)).any()
        assert dict(found.certified.accuracy)[eps] == certificate.accuracy(eps)
        assert certificate.accuracy(eps) <= found.robust_accuracy
    assert certificate.accuracy(0.01) > 0  # not vacuous, so that there is something to break


def test_one_output_is_two_classes():
    x, _ = images()
    model = Perceptron(64, 4, 1, generator=torch.Generator().manual_seed(0)).eval()
    with torch.no_grad():
        model.head.bias -= model(x).median()  # both classes
        labels = (model(x)[:, 0] > 0).long()
    found = evaluate(model, x, labels, eps=0.5, attacks="pgd,square", quick=True, checks=False)
    assert found.clean_accuracy == 1
    assert 0.3 < float(labels.double().mean()) < 0.7
    assert found.robust_accuracy < 0.5
    assert found.certified.accuracy[0] == (0.0, 1.0)


def test_the_model_is_left_as_it_was():
    model = nn.Sequential(trained(), nn.BatchNorm1d(10), nn.Dropout(0.5)).train()
    model[0].eval()
    model[1].weight.requires_grad_(False)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = light(model, "pgd", checks=True)
    assert found.images == 100
    assert [part.training for part in model] == [False, True, True]
    assert not model[1].weight.requires_grad
    assert model[1].bias.requires_grad
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_foreign_model_has_no_certificate_but_everything_else():
    found = light(nn.Sequential(trained(), nn.GELU()), "pgd")
    assert found.certified.reason == "no bound is known for a layer of type GELU"
    assert "certified accuracy: not applicable" in found.text()
    assert draw(found).axes


def test_progress_counts_to_the_end():
    told = []
    light(trained(), "fgsm,pgd", checks=True, progress=lambda *what: told.append(what))
    done = [done for _, done, _ in told]
    assert len(done) == 2 + 1 + len(CHECKS) + 1
    assert done == sorted(set(done))  # it grows with every part
    assert (done[0], {of for _, _, of in told}) == (0, {done[-1]})


def test_the_same_seed_gives_the_same_evaluation():
    one, same, other = (light(trained(), "pgd,square", seed=seed) for seed in (1, 1, 2))
    assert one.success() == same.success()
    assert one.success() != other.success()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"norm": "l1"}, "norm is 'l1', expected one of linf, l2"),
        ({"eps": -1.0}, "eps is -1.0, expected a radius of 0 or more"),
        ({"attacks": "pdg"}, "attacks is 'pdg', expected one of standard"),
    ],
)
def test_wrong_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        light(trained(), **options)
    with pytest.raises(ValueError, match="x holds no images"):
        evaluate(trained(), torch.zeros(0, 1, 8, 8), torch.zeros(0).long(), eps=0.1)
