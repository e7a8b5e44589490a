"""The experiment `adversarial-training`: does the neuron help adversarially trained networks?

Every step learns from images moved by PGD (`ibnn.lab.training.adversarial`), the same for all arms.
"""

from typing import Any

from ibnn.lab.experiments.controls.arms import IMPLICIT, NEGATIVE, STANDARD
from ibnn.lab.experiments.controls.experiment import ATTACKED
from ibnn.lab.experiments.controls.record import Records
from ibnn.lab.experiments.experiment import Settings
from ibnn.lab.experiments.images import Size
from ibnn.lab.experiments.robustness import suite_claims
from ibnn.lab.experiments.robustness.suite import AttackSuite
from ibnn.lab.results import Claim
from ibnn.lab.training import RunConfig

# A step of training costs 1 + STEPS: preset cpu takes fewer images and epochs than others have.
STEPS = 5
CPU = Size(epochs=10, n_train=5_000, n_test=2_000)


class AdversarialTraining(AttackSuite):
    """Networks trained and attacked within the same radius, half the curve's largest."""

    name = "adversarial-training"
    title = "Adversarially trained networks under every attack"
    datasets = ("fashion-mnist", "svhn-resplit", "svhn", "cifar10", "digits", "*")
    arm_names = (STANDARD, IMPLICIT, NEGATIVE)
    images = 50  # robust networks cost the suite most: nothing stops early
    curve_images = ATTACKED  # the primary measure

    def size(self, settings: Settings) -> Size:
        return CPU if settings.preset == "cpu" else super().size(settings)

    def base(self, settings: Settings, **changes: Any) -> RunConfig:
        eps = self.defaults(settings).largest_eps / 2
        trained = {"adversarial_eps": eps, "adversarial_steps": STEPS}
        return super().base(settings, **trained, **changes)

    def eps(self, config: RunConfig) -> float:
        return config.adversarial_eps

    def headline(self, settings: Settings, records: Records) -> str:
        return suite_claims.trained_headline(records)

    def claims(self, settings: Settings, records: Records) -> list[Claim]:
        return suite_claims.trained_claims(records)
