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
from ibnn.lab.stats.families import EQUIVALENT, Judged, judge

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


def learnt_family(records: Records) -> Judged:
    """Learnt lam minus standard in the worst case, a comparison by itself."""
    return family(worst(records), IMPLICIT, [STANDARD])[STANDARD]


def negative_family(records: Records) -> dict[str, Judged]:
    """lam = -0.2 minus standard and minus its controls in the worst case."""
    return family(worst(records), NEGATIVE, AGAINST_NEGATIVE)


def trained_family(read: Reading) -> dict[str, Judged]:
    """Of adversarially trained networks: both lam minus standard."""
    return judge({arm: paired(read(arm), read(STANDARD)) for arm in (IMPLICIT, NEGATIVE)})


def suite_claims(records: Records) -> list[Claim]:
    """Learnt lam, lam = -0.2 and its controls in the worst case; and the intermediate states."""
    learnt = learnt_family(records)
    found = negative_family(records)
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
        claims += [
            judged.claim(
                f"Adversarially trained, {arm} is better than standard. {measure}.",
                "Minus standard",
            )
            for arm, judged in trained_family(read).items()
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


def suite_headline(records: Records) -> str:
    """Both lam against standard, in the worst case."""
    return _headline(
        {IMPLICIT: learnt_family(records), NEGATIVE: negative_family(records)[STANDARD]}
    )


def trained_headline(records: Records) -> str:
    """The same of adversarially trained networks."""
    return _headline(trained_family(worst(records)))


def _headline(found: Mapping[str, Judged]) -> str:
    if any(judged.difference is None for judged in found.values()):
        return NOT_YET
    parts = [f"{arm} {judged.text()}" for arm, judged in found.items()]
    return f"Accuracy under every attack of the suite, minus standard: {'; '.join(parts)}."
