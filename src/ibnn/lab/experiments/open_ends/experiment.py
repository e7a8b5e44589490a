"""The experiment `open-ends`: learnt slope and extent, lam per channel, a sigma that falls."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import ibnn
from ibnn import sigma as sigmas
from ibnn.lab.experiments.arms import trained
from ibnn.lab.experiments.experiment import Run, Settings
from ibnn.lab.experiments.images import ImageExperiment, Size
from ibnn.lab.experiments.open_ends import claims
from ibnn.lab.experiments.open_ends.arms import ARMS, PEAKED
from ibnn.lab.experiments.open_ends.record import EXTENT, Record, Records
from ibnn.lab.experiments.protocol import protocol
from ibnn.lab.experiments.readings import amounts, never_learnt
from ibnn.lab.models import implicit_layers
from ibnn.lab.results import FEWEST_PAIRS, Findings, Picture, questions
from ibnn.lab.training import Result, RunConfig

# Of a sigma whose solves sum over all pairs, as the plan has it: the 1,024 units of a map of
# 32 x 32 have 256 times the pairs of the 64 of the digits.
LARGEST_FOR_ALL_PAIRS = 256


class OpenEnds(ImageExperiment):
    """Networks with equal seeds: same initial weights, warm-up, order of images and schedule."""

    name = "open-ends"
    title = "The paper's open ends: slope, extent, channels, sigma, several solutions"
    datasets = ("svhn-resplit", "digits", "fashion-mnist", "svhn", "cifar10", "*")
    takes_lam = False

    def size(self, settings: Settings) -> Size:
        chosen = super().size(settings)
        if settings.preset == "cpu" and self.dataset(settings) != "digits":
            return replace(chosen, n_train=1_600, n_test=1_000, epochs=8)
        return chosen

    def plan(self, settings: Settings, results: Mapping[str, Result]) -> list[RunConfig]:
        return [config for _, config in self._compared(settings)]

    def measure(self, run: Run) -> dict[str, Any]:
        """The extent of every layer's window."""
        windows = [layer.coupling for layer in implicit_layers(run.network())]
        return {EXTENT: [float(w.std.detach()) for w in windows if isinstance(w, ibnn.Window)]}

    def find(self, settings: Settings, runs: Sequence[Run]) -> Findings:
        compared = trained(self._compared(settings), runs)
        records = Records(Record.of(arm, run) for arm, run in compared)
        left_out = [name for name in ARMS if name not in self.arms(settings)]
        notes = [f"Left out on maps this large: {', '.join(left_out)}."] if left_out else []
        notes += [
            f"Sigma {name} is not certified: no threshold of uniqueness is known for it."
            for name in sorted({run.config.sigma for run in runs})
            if not sigmas.resolve(name).certified
        ]
        notes += never_learnt((f"{r.arm} seed {r.seed}", r.curve) for r in records)
        family = claims.family(records, self.arms(settings))
        note = f"{amounts(runs)}; mean and 95 % interval, not corrected"
        return Findings(
            headline=claims.headline(family),
            pictures=[Picture(self.name, claims.draw(records, note), CAPTION)],
            claims=questions(claims.claims(records, family)),
            rows=[record.row() for record in records],
            tables=[claims.table(records, family), claims.learnt_table(records)],
            notes=notes,
            rule=RULE,
            settings=protocol(runs),
        )

    def arms(self, settings: Settings) -> list[str]:
        """All of them, but for a sigma that needs all pairs of a large map."""
        shape = self.defaults(settings).image_shape or (1, 32, 32)
        slow = shape[-1] * shape[-2] > LARGEST_FOR_ALL_PAIRS
        return [name for name in ARMS if not (slow and name == PEAKED)]

    def _compared(self, settings: Settings) -> list[tuple[str, RunConfig]]:
        """Seed by seed: whatever has finished is paired."""
        return [
            (name, ARMS[name].of(self.base(settings, seed=seed)))
            for seed in self.seeds(settings)
            for name in self.arms(settings)
        ]


CAPTION = (
    "Differences of best accuracy between networks of equal seeds, mean and 95 % interval, not "
    "corrected. Left: every arm minus the standard network. Right: every option minus the arm it "
    "changes; the gray band is 0.3 points either way, an interval inside it counts as equivalent."
)
RULE = (
    "The rule was written before the runs: docs/verdict-plan.md. Each option minus the arm it "
    f"changes, all of them in one family (Holm); yes and no need at least {FEWEST_PAIRS} pairs "
    "of equal seeds and a corrected p below 0.05; equivalent is an interval within 0.3 points, and "
    "counts as no."
)
