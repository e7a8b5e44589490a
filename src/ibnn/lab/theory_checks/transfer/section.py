"""Section: what is left of a trained standard network when its neurons become implicit."""

from typing import Any

from ibnn.lab import data
from ibnn.lab.results import Picture
from ibnn.lab.theory_checks.check import Context, Progress, Section
from ibnn.lab.theory_checks.transfer import claims
from ibnn.lab.theory_checks.transfer.figures import draw_accuracy, draw_tasks
from ibnn.lab.theory_checks.transfer.margin import margins, one_against_one, train
from ibnn.lab.training import validate
from ibnn.lab.training.conversion import recalibrated, with_lam

LAMS = (-0.6, -0.4, -0.3, -0.2, -0.1, -0.05, 0.0, 0.05, 0.095)
QUICK_LAMS = (-0.5, -0.1, 0.0, 0.05)
DIGITS = (3, 8)
UNITS = 32
TESTED = 500  # test images
BATCH = 64


def section(context: Context, progress: Progress) -> Section:
    """Margins in the paper's setting, and the accuracy of the network's own weights over lam."""
    lams = QUICK_LAMS if context.quick else LAMS
    plane = data.draw("moons", 150 if context.quick else 300, 2, seed=context.seed)
    tasks = {
        "Two moons": one_against_one(plane, 0, 1),
        f"Digits, {DIGITS[0]} against {DIGITS[1]}": one_against_one(data.load("digits"), *DIGITS),
    }
    total = len(tasks) * (1 + len(lams)) + len(lams)
    done = 0
    found: dict[str, list[dict[str, Any]]] = {}
    for name, task in tasks.items():
        progress(done, total, f"training on {task.name}")
        classifier = train(task, UNITS, context.seed)
        done += 1
        found[name] = []
        for lam in lams:
            progress(done, total, f"margins on {task.name}")
            found[name].append(margins(task, classifier, lam))
            done += 1
    accuracies = []
    for lam in lams:
        progress(done, total, "accuracy over λ")
        accuracies.append(_accuracy(context, lam))
        done += 1
    standard = _validated(context.standard, context)
    progress(total, total, "done")
    return Section(
        name="transfer",
        title="Transfer: a trained standard network becomes implicit",
        claims=claims.claims(found, accuracies, standard),
        notes=claims.notes(found, accuracies),
        pictures=[
            Picture(
                "transfer-margins",
                draw_tasks(found),
                "Two classes that a standard network with one hidden layer separates with margin "
                "M; the same weights with implicit neurons, under the head it had and under the "
                "best one for the new features. Bounds are for the old head.",
            ),
            Picture(
                "transfer-accuracy",
                draw_accuracy(accuracies, standard),
                "The weights of the network under study with another λ in every implicit layer, "
                "and nothing trained.",
            ),
        ],
        tables=[claims.table(found)],
        rows=[*(row for rows in found.values() for row in rows), *accuracies],
    )


def _accuracy(context: Context, lam: float) -> dict[str, Any]:
    network = with_lam(context.network, lam)
    row: dict[str, Any] = {"kind": "accuracy", "lam": lam, "accuracy": _validated(network, context)}
    fresh = recalibrated(network, context.x.split(BATCH))
    if fresh is not None:
        row["accuracy_recalibrated"] = _validated(fresh, context)
    return row


def _validated(network: Any, context: Context) -> float:
    dataset, place = context.dataset, context.x.device
    x, y = dataset.x_test[:TESTED].to(place), dataset.y_test[:TESTED].to(place)
    return validate(network, x, y).accuracy
