"""Every part a user can add by name is registered, refused and looked for in the same way."""

from collections.abc import Callable
from copy import copy
from typing import Any

import pytest

from ibnn.lab import attacks, data, experiments, models, theory_checks, training
from ibnn.lab.attacks import suites
from ibnn.lab.data import catalogue
from ibnn.lab.experiments import registry as experiment_registry
from ibnn.lab.models import networks
from ibnn.lab.models.neurons import kind as neurons
from ibnn.lab.theory_checks import registry as check_registry
from ibnn.lab.theory_checks.run import chosen_checks
from ibnn.lab.training.listeners import registry as listener_registry

# A cell of a notebook, or a module: run again, it defines all its classes and functions anew.
CELL = """
from dataclasses import dataclass
from torch import nn
from ibnn.lab import attacks, data, experiments, models, theory_checks, training

class MineNetwork(models.NetworkKind):
    name = "mine"
    def title(self, config):
        return "mine"

class MineNeuron(models.MapKind):
    name = "mine"
    def then(self, neuron, layer, channels):
        return nn.Identity()

@dataclass(frozen=True)
class MineSource(data.Source):
    def read(self, files):
        raise data.DataError("nothing is there")

class MineListener(training.Listener):
    pass

class MineExperiment(experiments.Experiment):
    name = "mine"
    title = "mine"
    def plan(self, settings, results):
        return []
    def find(self, settings, runs):
        raise experiments.ExperimentError("there are no runs")

def mine_attack(eps, norm, quick):
    return attacks.PGD(eps, norm=norm)

def mine_check(context, progress):
    raise theory_checks.DoesNotApply("to nothing")

models.register_network(MineNetwork())
models.register_neuron(MineNeuron())
data.register_dataset(MineSource("mine", "somebody's"))
training.register_listener("mine", MineListener)
attacks.register_attack("mine", mine_attack)
experiments.register_experiment(MineExperiment)
theory_checks.register_check("mine", mine_check)
"""
REGISTERED_IN = {
    "network": (networks, "_KINDS"),
    "neuron": (neurons, "_KINDS"),
    "dataset": (catalogue, "SOURCES"),
    "listener": (listener_registry, "_MAKERS"),
    "attack": (suites, "_MAKERS"),
    "experiment": (experiment_registry, "_EXPERIMENTS"),
    "check": (check_registry, "_CHECKS"),
}


@pytest.fixture(autouse=True)
def taken_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in REGISTERED_IN.values():
        monkeypatch.setattr(module, name, copy(getattr(module, name)))


def run_cell(module: str = "__main__", text: str = CELL) -> dict[str, Any]:
    names = {"__name__": module}
    exec(compile(text, "cell", "exec", dont_inherit=True), names)
    return names


def names_of(part: str) -> list[str]:
    return {
        "network": lambda: list(models.network_names()),
        "neuron": lambda: list(models.neuron_names()),
        "dataset": data.names,
        "listener": training.listener_names,
        "attack": lambda: list(attacks.attack_names()),
        "experiment": experiments.names,
        "check": lambda: list(theory_checks.names()),
    }[part]()


def test_a_cell_that_is_run_again_replaces_what_it_registered():
    run_cell()
    again = run_cell()
    assert [names_of(part).count("mine") for part in REGISTERED_IN] == [1] * 7
    assert type(models.network_kind("mine")) is again["MineNetwork"]
    assert type(models.neuron_kind("mine")) is again["MineNeuron"]
    assert type(experiments.get("mine")) is again["MineExperiment"]
    assert type(training.make_listeners(["mine"])[0]) is again["MineListener"]
    assert check_registry.load("mine") is again["mine_check"]


@pytest.mark.parametrize("worker", ["__main__", "__mp_main__"])
def test_a_script_that_is_its_own_plugin_registers_its_parts_once(worker):
    run_cell("my_parts")
    again = run_cell(worker)
    assert type(models.network_kind("mine")) is again["MineNetwork"]


REGISTER: dict[str, Callable[[dict[str, Any]], Any]] = {
    "network": lambda cell: models.register_network(cell["MineNetwork"]()),
    "neuron": lambda cell: models.register_neuron(cell["MineNeuron"]()),
    "dataset": lambda cell: data.register_dataset(cell["MineSource"]("mine", "somebody's")),
    "listener": lambda cell: training.register_listener("mine", cell["MineListener"]),
    "attack": lambda cell: attacks.register_attack("mine", cell["mine_attack"]),
    "experiment": lambda cell: experiments.register_experiment(cell["MineExperiment"]),
    "check": lambda cell: theory_checks.register_check("mine", cell["mine_check"]),
}


@pytest.mark.parametrize("part", REGISTER)
def test_a_part_of_another_module_under_a_taken_name_is_refused(part):
    run_cell("my_parts")
    defined, _, _ = CELL.partition("models.register_network(")
    theirs = run_cell("their_parts", defined)
    taken = rf"{part} 'mine' is registered already, by my_parts\.[Mm]ine"
    with pytest.raises(ValueError, match=taken):
        REGISTER[part](theirs)


def test_of_one_class_of_datasets_another_one_is_refused():
    cell = run_cell()
    data.register_dataset(cell["MineSource"]("mine", "somebody's"))
    with pytest.raises(ValueError, match="'mine' is registered already"):
        data.register_dataset(cell["MineSource"]("mine", "somebody else's"))


def test_the_name_of_the_usual_attacks_is_no_attacks():
    with pytest.raises(ValueError, match="'standard'"):
        attacks.register_attack("standard", lambda eps, norm, quick: attacks.PGD(eps))


@pytest.mark.parametrize(
    ("look_for", "wrong", "near"),
    [
        (models.network_kind, "resnet2", "resnet20"),
        (models.neuron_kind, "implict", "implicit"),
        (lambda name: training.RunConfig(dataset="digits", network=name), "resnet2", "resnet20"),
        (data.load, "digts", "digits"),
        (lambda name: training.make_listeners([name]), "tensorbord", "tensorboard"),
        (lambda name: attacks.named(name, 0.1), "pdg", "pgd"),
        (lambda name: attacks.suite(name, 0.1), "standart", "standard"),
        (experiments.get, "bondary", "boundary"),
        (lambda name: chosen_checks([name]), "soltions", "solutions"),
    ],
)
def test_an_unknown_name_is_one_line_with_the_nearest_and_what_there_is(look_for, wrong, near):
    with pytest.raises(Exception, match=f"{wrong!r}.*expected one of .*{near}") as caught:
        look_for(wrong)
    message = str(caught.value)
    assert message.endswith(f"; did you mean {near!r}?")
    assert len(message.splitlines()) == 1
    with pytest.raises(type(caught.value), match="expected one of") as caught:
        look_for("qqqqqq")
    assert "did you mean" not in str(caught.value)
