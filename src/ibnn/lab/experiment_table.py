"""The experiments that come with the laboratory; nothing is imported to know their names."""

# name on the command line -> (where its class is, one line for `ibnn run --help`)
OWN: dict[str, tuple[str, str]] = {
    "boundary": ("boundary.experiment:Boundary", "decision boundaries in the plane (Fig. 2)"),
    "learning-speed": ("accuracy.learning_speed:LearningSpeed", "validation accuracy by epoch"),
    "data-fraction": ("accuracy.data_fraction:DataFraction", "accuracy from less training data"),
    "expressivity": ("accuracy.expressivity:Expressivity", "accuracy against parameters"),
    "pgd": ("robustness.pgd:PgdCurves", "robust accuracy under PGD, white box and transfer"),
    "attack-suite": ("robustness.suite:AttackSuite", "every attack on five kinds of networks"),
    "adversarial-training": (
        "robustness.adversarial_training:AdversarialTraining",
        "the same on networks trained to resist",
    ),
    "pixle": ("robustness.pixle:PixleBars", "robust accuracy under Pixle, a black-box attack"),
    "memorization": ("accuracy.memorization:Memorization", "accuracy against wrong labels"),
    "overfitting": ("overfitting.experiment:Overfitting", "memorized wrong labels"),
    "transfer": ("transfer.experiment:Transfer", "trained standard networks, converted"),
    "controls": ("controls.experiment:Controls", "other maps in place of the implicit solve"),
    "controls-torch": ("controls.variant:ControlsTorch", "the same, torch's start"),
    "controls-tuned": ("controls.tuned:ControlsTuned", "the same with tuned learning rates"),
    "pareto": ("pareto:Pareto", "robust against clean accuracy, many neurons"),
    "lambda-sweep": ("lambda_sweep.experiment:LambdaSweep", "accuracy over lam and slope"),
    "architectures": ("architectures.experiment:Architectures", "in ResNet-20, ViT and GPT"),
    "open-ends": ("open_ends.experiment:OpenEnds", "learnt slope and extent, other sigmas"),
    "capacity": ("capacity.experiment:Capacity", "what three hidden neurons can represent"),
}
