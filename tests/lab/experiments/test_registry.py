"""An experiment of one's own: one file, one registration; and defaults that need no data."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ibnn.lab import data
from ibnn.lab.experiments import Experiment, Settings, about, get, names, register_experiment

TOY = '''
"""How much a second layer helps."""

from ibnn.lab.experiments import Experiment, Findings, Picture, Preset, register_experiment
from ibnn.lab.plotting import style
from ibnn.lab.stats import claim, paired
from ibnn.lab.training import RunConfig


@register_experiment
class Depth(Experiment):
    name = "depth"
    title = "One layer against two"
    datasets = ("digits",)
    presets = {"smoke": Preset(seeds=2, epochs=1)}

    def plan(self, settings, results):
        return [
            RunConfig(dataset="digits", layers=layers, seed=seed, epochs=1, n_train=64, n_test=32)
            for layers in (1, 2)
            for seed in range(self.preset(settings).seeds)
        ]

    def find(self, settings, runs):
        one, two = (
            {run.config.seed: run.result.accuracy for run in runs if run.config.layers == layers}
            for layers in (1, 2)
        )
        figure, (axes,) = style.figure(width=4, height=3, title="Accuracy by depth")
        axes.plot([1, 2], [[one[seed] for seed in one], [two[seed] for seed in one]])
        gain = paired(two, one)
        return Findings(
            headline="Two seeds decide nothing.",
            pictures=[Picture("depth", figure, "One line per seed.")],
            claims=[claim("Depth helps.", "Two layers minus one.", gain, "more")],
            rows=[{"layers": run.config.layers, "accuracy": run.result.accuracy} for run in runs],
        )
'''


def ibnn(*arguments: str, folder, **environment: str) -> subprocess.CompletedProcess:
    import os

    path = os.pathsep.join([str(folder), *sys.path])
    return subprocess.run(
        [sys.executable, "-m", "ibnn", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_experiment_of_ones_own_is_one_file_and_one_line(tmp_path):
    (tmp_path / "depth.py").write_text(TOY)
    run = ("run", "depth", "--preset", "smoke", "--engine", "inline", "--out", "results")
    ran = ibnn(*run, folder=tmp_path, IBNN_PLUGINS="depth")
    assert ran.returncode == 0, ran.stderr
    folder = tmp_path / "results" / "depth-digits"
    page = (folder / "report.html").read_text()
    assert "One layer against two" in page
    assert "Depth helps." in page
    assert len((folder / "depth.csv").read_text().splitlines()) == 1 + 4
    assert "Depth helps." in (tmp_path / "results" / "index.html").read_text()
    again = ibnn("report", "results", folder=tmp_path, IBNN_PLUGINS="depth")
    assert again.returncode == 0, again.stderr
    unknown = ibnn(*run, folder=tmp_path)
    assert unknown.returncode != 0
    assert "unknown experiment 'depth'" in unknown.stderr


def test_a_name_is_given_once():
    class Impostor(Experiment):
        name = "pgd"
        title = "Another"

    with pytest.raises(ValueError, match="'pgd' is registered already"):
        register_experiment(Impostor)
    assert get("pgd").title != "Another"


@pytest.mark.parametrize("name", names())
def test_every_smoke_preset_has_its_data_without_a_network(name, tmp_path):
    experiment, smoke = get(name), Settings(preset="smoke")
    experiment.check(smoke)
    assert data.load(experiment.dataset(smoke), root=tmp_path, download=False)
    configs = experiment.plan(smoke, {})
    assert {config.dataset for config in configs} <= {experiment.dataset(smoke)}


def test_every_experiment_says_what_it_draws():
    assert about().keys() == {*names()}
    assert all(about().values())


def test_every_experiment_has_its_section_in_the_docs():
    page = Path(__file__).parents[3] / "docs" / "experiments.md"
    headings = [line[3:] for line in page.read_text().splitlines() if line.startswith("## ")]
    described = {name for heading in headings for name in heading.split(", ")}
    assert {*names()} <= described


@pytest.mark.parametrize("name", [name for name in names() if get(name).takes_seeds])
def test_fresh_seeds_are_other_networks(name):
    """With another first seed nothing is trained that was trained before, but what tunes."""
    experiment = get(name)
    plans = [
        experiment.plan(Settings(preset="smoke", seeds=2, first_seed=first), {}) for first in (0, 7)
    ]
    usual, fresh = ({c.seed for c in plan if not c.hold_out} for plan in plans)
    assert fresh == {seed + 7 for seed in usual}
    assert len(plans[0]) == len(plans[1])


@pytest.mark.parametrize("name", [name for name in names() if get(name).takes_channels])
def test_channels_are_those_of_every_network(name):
    """Whoever chooses them is told what is usual."""
    experiment, settings = get(name), Settings(preset="paper", dataset="cifar10", channels=5)
    assert {config.channels for config in experiment.plan(settings, {})} == {5}
    usual = 16 if name == "learning-speed" else 8
    assert f"5 channels in place of {usual}." in experiment.preset(settings).reduced
    same = experiment.preset(Settings(preset="paper", dataset="cifar10", channels=usual))
    assert not any("channels" in line for line in same.reduced)


def test_narrow_networks_of_learning_speed_are_those_of_the_controls():
    settings = Settings(preset="paper", dataset="cifar10", channels=8, seeds=5)
    speed, controls = (
        {config.identity() for config in get(name).plan(settings, {})}
        for name in ("learning-speed", "controls")
    )
    assert speed < controls


@pytest.mark.parametrize("name", names())
def test_fewer_seeds_or_epochs_than_published_are_told(name):
    experiment = get(name)
    whole = " ".join(experiment.preset(Settings(preset="paper")).reduced)
    assert not re.search(r"\b(epoch|seed)s?\b", whole)
    told = " ".join(experiment.preset(Settings(preset="paper", epochs=1)).reduced)
    assert re.search(r"\b1 epochs?\b", told)
    if experiment.takes_seeds:
        told = " ".join(experiment.preset(Settings(preset="paper", seeds=1)).reduced)
        assert re.search(r"\b1 seeds?\b", told)


@pytest.mark.parametrize(("name", "planned"), [("controls", 10), ("pgd", 5)])
def test_seeds_are_fewer_than_planned_or_not(name, planned):
    told, nothing = (
        get(name).preset(Settings(preset="paper", dataset="fashion-mnist", seeds=seeds)).reduced
        for seeds in (3, planned)
    )
    assert told == (f"3 seeds in place of {planned}.",)
    assert nothing == ()


@pytest.mark.parametrize("name", ["learning-speed", "lambda-sweep", "overfitting"])
def test_what_a_dataset_stands_in_for_is_told(name):
    settings = Settings(preset="paper", dataset="svhn-resplit")
    assert "stand in for SVHN" in " ".join(get(name).preset(settings).reduced)
