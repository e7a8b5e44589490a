"""The paper's margin bound on the first two classes of a dataset."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ibnn.lab.data import Dataset
from ibnn.lab.theory_checks.transfer.margin import margins, one_against_one, train

UNITS = 16
IMAGES = 500
STEPS = 600


def margin_curve(examples: Dataset, lambdas: Sequence[float], seed: int) -> dict[str, Any] | None:
    """The margin of a small classifier of classes 0 and 1 after conversion, for every lam.

    None where the theorem says nothing: a class without training images, or two that the
    classifier does not separate.
    """
    task = one_against_one(examples, 0, 1)
    task = replace(task, x=task.x[:IMAGES], y=task.y[:IMAGES])
    if len(set(task.y.tolist())) < 2:
        return None
    classifier = train(task, UNITS, seed, STEPS)
    standard = classifier.margin(task, 0.0)
    if standard <= 0:
        return None
    points = [margins(task, classifier, lam) for lam in lambdas]
    return {"units": UNITS, "images": len(task.x), "standard": standard, "points": points}
