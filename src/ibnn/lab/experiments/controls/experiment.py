"""The experiment `controls`: every arm with the published settings, its accuracy and robustness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ibnn.lab.attacks import PGD
from ibnn.lab.experiments.controls import claims, figures, tables
from ibnn.lab.experiments.controls.arms import ARMS, FEW, Arm
from ibnn.lab.experiments.controls.record import SMOOTHED, WHITE_BOX, Record, Records
from ibnn.lab.experiments.experiment import Preset, Run, Settings
from ibnn.lab.experiments.images import ImageExperiment
from ibnn.lab.experiments.robustness.networks import attacked_images, randomness
from ibnn.lab.experiments.robustness.pgd import sizes
from ibnn.lab.results import FEWEST_PAIRS, Findings, Picture
from ibnn.lab.training import Result, RunConfig

PAIRS = 10  # in preset paper
ATTACKED = 1000  # test images under attack


class Controls(ImageExperiment):
    """Arms with equal seeds: same first weights, warm-up, order of images and schedule."""

    name = "controls"
    title = "Controls: does the gain need the implicit solve?"
    datasets = ("svhn-resplit", "fashion-mnist", "svhn", "cifar10", "digits", "*")
    takes_lam = False
    arm_names: ClassVar[tuple[str, ...]] = tuple(ARMS)

    def preset(self, settings: Settings) -> Preset:
        chosen = super().preset(settings)
        if settings.preset != "paper" or settings.seeds:
            return chosen
        return Preset(seeds=PAIRS, epochs=chosen.epochs, reduced=chosen.reduced)

    def arms(self, settings: Settings) -> list[Arm]:
        """What is trained; on CIFAR-10 only the arms that matter most."""
        few = self.dataset(settings) == "cifar10"
        return [ARMS[name] for name in self.arm_names if not few or name in FEW]

    def plan(self, settings: Settings, results: Mapping[str, Result]) -> list[RunConfig]:
        # seed by seed: whatever has finished is paired
        return [
            arm.of(self.base(settings, seed=seed))
            for seed in range(self.preset(settings).seeds)
            for arm in self.arms(settings)
        ]

    def measure(self, run: Run) -> dict[str, Any]:
        """White-box accuracy at every eps, on the first test images."""
        network, (x, y) = run.network(), attacked_images(run)
        x, y = x[:ATTACKED], y[:ATTACKED]
        found = []
        for eps in sizes(run.config.dataset):
            success = PGD(eps)(network, x, y, generator=randomness(run, "pgd")).success
            found.append(1 - float(success.double().mean()))
        return {"images": len(x), WHITE_BOX: found}

    def records(self, settings: Settings, runs: Sequence[Run]) -> Records:
        """The finished runs, by arm and seed."""
        found = {run.config.identity(): run for run in runs}
        records = []
        for seed in range(self.preset(settings).seeds):
            for arm in self.arms(settings):
                run = found.get(arm.of(self.base(settings, seed=seed)).identity())
                records += [Record.of(arm.name, run)] if run else []
        return Records(records)

    def find(self, settings: Settings, runs: Sequence[Run]) -> Findings:
        records, eps = self.records(settings, runs), sizes(self.dataset(settings))
        images = max((run.measured.get("images", 0) for run in runs), default=0)
        note = self.footnote(settings, runs)
        under_attack = f"PGD, 10 steps, white box, {images:,} test images; medians"
        return Findings(
            headline=claims.headline(records),
            pictures=[
                Picture("controls", figures.draw_curves(records, note), CURVES),
                Picture("differences", figures.draw_differences(records), DIFFERENCES),
                Picture("attacked", figures.draw_attacked(records, eps, under_attack), ATTACK),
            ],
            claims=[
                *claims.accuracy_claims(records),
                *claims.speed_claims(records),
                *claims.robust_claims(records),
            ],
            rows=[record.row() for record in records],
            tables=[
                tables.accuracy_table(records),
                tables.speed_table(records),
                tables.robust_table(records, eps),
            ],
            notes=NOTES,
            rule=RULE,
            settings=self.settings_lines(settings),
        )

    def footnote(self, settings: Settings, runs: Sequence[Run]) -> str:
        """Epochs and images used, to stand in a figure."""
        train, test = max(r.result.n_train for r in runs), max(r.result.n_test for r in runs)
        return (
            f"{self.preset(settings).epochs} epochs, {train:,} training and {test:,} test images; "
            "number of networks in brackets"
        )

    def settings_lines(self, settings: Settings) -> list[tuple[str, str]]:
        """How the runs were trained, from their configuration."""
        config = self.base(settings)
        return [
            ("Network", f"UCN({config.layers},{config.channels})"),
            ("Initialization", config.initialisation),
            (
                "Training",
                f"{config.epochs} epochs after {config.warmup_epochs} of warm-up with standard "
                f"neurons, SGD, momentum {config.momentum:g}, batch {config.batch_size}, learning "
                f"rate {config.lr_low:g} to {config.lr_high:g} and back, gradient norm at most "
                f"{config.clip:g}",
            ),
            ("Pairs", f"seeds 0 to {self.preset(settings).seeds - 1} of every arm"),
            *((arm.name, arm.about) for arm in self.arms(settings)),
        ]


CURVES = (
    f"Validation accuracy by epoch, the median of each arm (running mean of {SMOOTHED} epochs); "
    "the standard and the implicit network are in both panels."
)
DIFFERENCES = (
    "Differences of best accuracy between networks of equal seeds: mean and 95 % interval, not "
    "corrected. The gray band on the right is 0.3 points either way: an interval inside it counts "
    "as equivalent."
)
ATTACK = (
    "Accuracy against the size of the attack, each network attacked with its own exact gradients."
)
RULE = (
    "The plan, with its families and rules, was written before the runs: docs/verdict-plan.md. "
    "Within a family p values are corrected by Holm's method; yes and no need at least "
    f"{FEWEST_PAIRS} pairs and a corrected p below 0.05; the intervals shown are those of single "
    "comparisons."
)
NOTES = (
    "Best accuracy is the best epoch on the test split, as in the paper: a maximum over epochs "
    "flatters every arm alike. The accuracy after the last epoch stands beside it.",
    "Robust accuracy is that of the network after its last epoch under one attack of 10 steps; "
    "stronger attacks leave less (`ibnn attack`).",
    "squeeze-excite has more parameters than the other arms; the table says how many.",
)
