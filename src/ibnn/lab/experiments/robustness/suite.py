"""The experiment `attack-suite`: five kinds of networks under every attack, judged by the plan.

The networks are those of `controls`; nothing is trained for an attack alone.
"""

from collections.abc import Sequence
from statistics import median
from typing import Any, ClassVar

from ibnn.lab import data
from ibnn.lab.attacks import Evaluation, evaluate, suite
from ibnn.lab.experiments.controls.arms import (
    AGAINST_NEGATIVE,
    DECAY,
    IMPLICIT,
    NEGATIVE,
    STANDARD,
)
from ibnn.lab.experiments.controls.experiment import ATTACK
from ibnn.lab.experiments.controls.figures import draw_attacked
from ibnn.lab.experiments.controls.frame import ArmsExperiment
from ibnn.lab.experiments.controls.record import Records
from ibnn.lab.experiments.controls.tables import robust_table
from ibnn.lab.experiments.experiment import Run, Settings
from ibnn.lab.experiments.images import preset_of
from ibnn.lab.experiments.protocol import attack_line
from ibnn.lab.experiments.readings import amounts
from ibnn.lab.experiments.robustness import suite_claims
from ibnn.lab.experiments.robustness.networks import attacked_images, attacked_network
from ibnn.lab.experiments.robustness.pgd import WHITE_BOX, pgd_curve, sizes
from ibnn.lab.experiments.robustness.suite_claims import (
    CLEAN,
    EXACT,
    SUITE,
    SUITE_EPS,
    SUITE_IMAGES,
    WORST,
    SuiteRecord,
    accuracy_under,
    suite_records,
)
from ibnn.lab.results import Claim, Picture, Table
from ibnn.lab.stats import percent
from ibnn.lab.training import RunConfig

# AutoAttack's four with our settings, and what only implicit layers can be attacked with.
NAMES = "apgd-ce,apgd-t,fab,square,intermediate"
INTERMEDIATE = "intermediate-linf"
QUICK_IMAGES = 20  # in preset smoke


class AttackSuite(ArmsExperiment):
    """Security curves, and the worst case over a suite of attacks at one eps."""

    name = "attack-suite"
    title = "Robust accuracy: every attack"
    arm_names = (STANDARD, IMPLICIT, NEGATIVE, "shrink", DECAY)
    record = SuiteRecord
    images: ClassVar[int] = 200  # the suite spends thousands of passes on each
    curve_images: ClassVar[int] = 200  # `controls` has the curves of 1,000

    def eps(self, config: RunConfig) -> float:
        """Of the suite: a quarter of the curve's largest, where standard networks still stand."""
        return data.defaults(config.dataset).largest_eps / 4

    def measure(self, run: Run) -> dict[str, Any]:
        """The curve of the controls, and what each attack of the suite leaves."""
        quick = preset_of(run.config) == "smoke"
        number, eps = QUICK_IMAGES if quick else self.images, self.eps(run.config)
        all_x, all_y = (part[: self.curve_images] for part in attacked_images(run))
        x, y = all_x[:number], all_y[:number]
        found = evaluate(
            attacked_network(run), x, y, eps=eps, attacks=suite(NAMES, eps, quick=quick),
            checks=False, seed=run.config.seed,
        )  # fmt: skip
        return {
            "images": len(all_x),
            WHITE_BOX: pgd_curve(run, all_x, all_y),
            SUITE: accuracies(found),
            SUITE_EPS: eps,
            SUITE_IMAGES: len(x),
        }

    def headline(self, settings: Settings, records: Records) -> str:
        return suite_claims.suite_headline(records)

    def pictures(self, settings: Settings, records: Records, runs: Sequence[Run]) -> list[Picture]:
        images = runs[0].measured["images"]
        note = f"{amounts(runs)}, the first {images:,} attacked by PGD; medians"
        figure = draw_attacked(records, sizes(self.dataset(settings)), note)
        return [Picture(self.name, figure, ATTACK)]

    def claims(self, settings: Settings, records: Records) -> list[Claim]:
        return suite_claims.suite_claims(records)

    def tables(self, settings: Settings, records: Records) -> list[Table]:
        # adversarially trained networks have other families
        against = AGAINST_NEGATIVE if {*AGAINST_NEGATIVE} < {*self.arm_names} else ()
        curves = robust_table(records, sizes(self.dataset(settings)), against)
        return [suite_table(records, self.arm_names), curves]

    def settings_lines(
        self, settings: Settings, runs: Sequence[Run], elsewhere: Sequence[RunConfig] = ()
    ) -> list[tuple[str, str]]:
        eps, images = (runs[0].measured[name] for name in (SUITE_EPS, SUITE_IMAGES))
        measured = suite(NAMES, eps, quick=images == QUICK_IMAGES)
        lines = [(f"Suite: {a.name}", attack_line(a)) for a in measured]
        number = ("Suite: images", f"the first {images:,} of the test split")
        return [number, *lines, *super().settings_lines(settings, runs, elsewhere)]


def accuracies(found: Evaluation) -> dict[str, float]:
    """By attack, without any, under all, and under all that other networks can meet too."""
    right = [digit == "1" for digit in found.right]
    broken = {
        row.name: [digit == "1" for digit in row.broken] for row in found.rows if row.within_ball
    }

    def standing(names: Sequence[str]) -> float:
        lost = [any(broken[name][image] for name in names) for image in range(len(right))]
        return sum(ok and not gone for ok, gone in zip(right, lost, strict=True)) / len(right)

    exact = standing([name for name in broken if name != INTERMEDIATE])
    each = {name: standing([name]) for name in broken}
    return {CLEAN: found.clean_accuracy, **each, EXACT: exact, WORST: found.robust_accuracy}


def suite_table(records: Records, order: Sequence[str]) -> Table:
    """Median accuracy of every arm under every attack."""
    shown = [arm for arm in order if records.of(arm)]
    every = [record for arm in shown for record in suite_records(records, arm)]
    attacks = list(dict.fromkeys(name for record in every for name in record.under))
    attacks = [name for name in attacks if name not in (EXACT, WORST)] + [EXACT, WORST]
    rows = []
    for arm in shown:
        found = {name: accuracy_under(records, arm, name).values() for name in attacks}
        cells = {name: percent(median(values)) if values else "" for name, values in found.items()}
        rows.append({"Arm": arm, "Networks": str(len(records.of(arm))), **cells})
    number, eps = (every[0].images, every[0].eps) if every else (0, 0.0)
    title = f"Accuracy under each attack at eps {eps:.3g}, {number:,} images, medians"
    return Table.of(title, rows)
