"""What is kept of a run under the whole suite, and what it says by the rules of the plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ibnn.lab.experiments.controls.arms import AGAINST_NEGATIVE, IMPLICIT, NEGATIVE, STANDARD
from ibnn.lab.experiments.controls.claims import contraction_needed, family
from ibnn.lab.experiments.controls.record import Record, Records
from ibnn.lab.experiments.experiment import Run
from ibnn.lab.experiments.readings import NOT_YET
from ibnn.lab.results import FEWEST_PAIRS, Answer, Claim
from ibnn.lab.stats import Paired, difference, paired
from ibnn.lab.stats.families import EQUIVALENT, judge

SUITE, SUITE_EPS, SUITE_IMAGES = "suite", "suite_eps", "suite_images"
CLEAN, WORST, EXACT = "none", "all", "all but intermediate"
_PREFIX = "under: "


@dataclass(frozen=True)
class SuiteRecord(Record):
    """One network. `under` is the accuracy under each attack by name, and `CLEAN` without any,
    `WORST` under all of them, `EXACT` under those that need no unfinished solve."""

    under: Mapping[str, float] = field(default_factory=dict)
    eps: float = 0.0
    images: int = 0

    @classmethod
    def of(cls, arm: str, run: Run) -> SuiteRecord:
        measured = run.measured
        return cls(
            **vars(Record.of(arm, run)),
            under=measured[SUITE],
            eps=measured[SUITE_EPS],
            images=measured[SUITE_IMAGES],
        )

    def row(self) -> dict[str, Any]:
        under = {f"{_PREFIX}{name}": value for name, value in self.under.items()}
        return {**super().row(), SUITE_EPS: self.eps, SUITE_IMAGES: self.images, **under}

    @classmethod
    def from_row(cls, row: Mapping[str, str]) -> SuiteRecord:
        found = {k.removeprefix(_PREFIX): v for k, v in row.items() if k.startswith(_PREFIX)}
        return cls(
            **vars(Record.from_row(row)),
            under={name: float(value) for name, value in found.items() if value},
            eps=float(row[SUITE_EPS]),
            images=int(row[SUITE_IMAGES]),
        )


def suite_records(records: Records, arm: str) -> list[SuiteRecord]:
    """The networks of an arm, by seed."""
    return [record for record in records.of(arm) if isinstance(record, SuiteRecord)]


def accuracy_under(records: Records, arm: str, attack: str = WORST) -> dict[int, float]:
    """Accuracy under an attack by seed, of the networks that met it."""
    found = suite_records(records, arm)
    return {record.seed: record.under[attack] for record in found if attack in record.under}


Reading = Callable[[str], Mapping[int, float]]


def worst(records: Records) -> Reading:
    """Accuracy under all attacks, by seed."""
    return lambda arm: accuracy_under(records, arm)


def suite_claims(records: Records) -> list[Claim]:
    """Learnt lam, lam = -0.2 and its controls in the worst case; and the intermediate states."""
    learnt = family(worst(records), IMPLICIT, [STANDARD])[STANDARD]
    found = family(worst(records), NEGATIVE, AGAINST_NEGATIVE)
    reply, why = contraction_needed({name: judged.decision for name, judged in found.items()})
    curves = paired(records.robust(NEGATIVE), records.robust(STANDARD))
    return [
        learnt.claim(
            "The learnt implicit bias is more robust than the standard neuron, under the whole "
            "suite.",
            "Worst case over the attacks, implicit minus standard",
        ),
        Claim(
            "lam = -0.2 is more robust than the standard neuron, under the whole suite.",
            f"Worst case over the attacks, minus standard: {found[STANDARD].text()}. "
            f"PGD, mean over eps: {difference(curves)}.",
            found[STANDARD].answer,
        ),
        Claim(
            "The robustness of lam < 0 needs the implicit solve, under the whole suite.",
            why + "".join(f" Minus {n}: {j.text()}." for n, j in found.items() if n != STANDARD),
            reply,
        ),
        *(unfinished(records, arm) for arm in (IMPLICIT, NEGATIVE)),
    ]


def trained_claims(records: Records) -> list[Claim]:
    """Of adversarially trained networks: both lam against standard, in three measures."""
    claims = []
    for measure, read in (
        ("PGD accuracy, mean over eps", records.robust),
        ("Worst case over the attacks", worst(records)),
        ("Accuracy after the last epoch", records.last),
    ):
        found = judge({a: paired(read(a), read(STANDARD)) for a in (IMPLICIT, NEGATIVE)})
        claims += [
            judged.claim(
                f"Adversarially trained, {arm} is better than standard. {measure}.",
                "Minus standard",
            )
            for arm, judged in found.items()
        ]
    return [*claims, *(unfinished(records, arm) for arm in (IMPLICIT, NEGATIVE))]


def unfinished(records: Records, arm: str) -> Claim:
    """Whether intermediate states break images that no other attack of the suite breaks."""
    lost = paired(accuracy_under(records, arm, EXACT), accuracy_under(records, arm))
    return Claim(
        f"{arm}: intermediate states of the solve break what exact gradients do not.",
        f"Broken by them alone: {difference(lost)}.",
        beyond(lost),
    )


def beyond(found: Paired | None) -> Answer:
    """More than 0.3 points, or less, by the 95 % interval; the difference is never below 0.

    >>> beyond(Paired(0.001, -0.0005, 0.0025, 5)), beyond(Paired(0.02, 0.01, 0.03, 5))
    ('no', 'yes')
    """
    if found is None or found.count < FEWEST_PAIRS:
        return "not decided"
    if found.high < EQUIVALENT:
        return "no"
    return "yes" if found.low > EQUIVALENT else "not decided"


def headline(records: Records) -> str:
    """Both lam against standard, in the worst case."""
    parts = []
    for arm in (IMPLICIT, NEGATIVE):
        judged = family(worst(records), arm, [STANDARD])[STANDARD]
        if judged.difference is None:
            return NOT_YET
        parts.append(f"{arm} {judged.text()}")
    return f"Accuracy under every attack of the suite, minus standard: {'; '.join(parts)}."
