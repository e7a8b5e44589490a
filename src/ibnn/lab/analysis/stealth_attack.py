"""The attacker: three ways to choose the added neuron (Tyukin et al., and as the paper has it).

The attacker knows the network, a trigger and a sample of data like the training data, never the
owner's verification set. The added filter is as long as the longest of the network's own.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ibnn.lab.analysis.attacked import Neuron, Victim

SHARE = 0.8  # of the way from the middle of the data to the trigger: where the neuron wakes
MARGIN = 0.25  # how far below zero it is kept on the sample, in units of its value at the trigger
FLOOR = 0.05  # least value at the trigger, as a share of filter length times distance
RATE = 0.02


@dataclass(frozen=True)
class Plan:
    """What the attacker wants: `gain` is added to the score of each trigger."""

    triggers: Tensor  # (T, inputs)
    gain: Tensor  # (T,)
    sample: Tensor  # (n, inputs)
    steps: int


def without_threshold(victim: Victim, plan: Plan) -> Neuron:
    """As the paper writes it: the filter is parallel to the trigger, the bias zero."""
    weight = _long(plan.triggers, victim)
    start = Neuron(weight, weight.new_zeros(len(weight)), weight.new_zeros(len(weight)))
    return victim.aimed(plan.triggers, plan.gain, start)


def with_threshold(victim: Victim, plan: Plan) -> Neuron:
    """Tyukin et al.: the neuron wakes only near the trigger, seen from the middle of the data."""
    middle = plan.sample.mean(0)
    weight = _long(plan.triggers - middle, victim)
    reach = ((plan.triggers - middle) * weight).sum(1)
    start = Neuron(weight, -weight @ middle - SHARE * reach, torch.zeros_like(reach))
    return victim.aimed(plan.triggers, plan.gain, start)


def optimised(victim: Victim, plan: Plan) -> Neuron:
    """From there, gradient steps through the exact solve: the same number for every network.

    Wanted: silent on the sample with a margin, awake at the trigger, and no change of any score of
    the sample. The best neuron by the largest change on the sample is kept.
    """
    first = with_threshold(victim, plan)
    weight, bias = (value.clone().requires_grad_() for value in (first.weight, first.bias))
    optimizer = torch.optim.Adam([weight, bias], RATE)
    distance = (plan.triggers - plan.sample.mean(0)).norm(dim=1)
    floor = FLOOR * distance * victim.weight.norm(dim=1).max()
    best, least = first, _largest(victim, plan, first)
    for _ in range(plan.steps):
        optimizer.zero_grad()
        neuron = victim.aimed(
            plan.triggers, plan.gain, Neuron(_long(weight, victim), bias, first.out)
        )
        awake = victim.hidden(plan.triggers.unsqueeze(1), neuron)[:, 0, -1]
        z = victim.hidden(plan.sample.unsqueeze(0), neuron)[..., -1]
        scale = torch.maximum(awake, floor).unsqueeze(1)
        margin = torch.relu(z / scale + MARGIN).square().mean(1)
        leak = (victim.change(plan.sample.unsqueeze(0), neuron) / plan.gain.unsqueeze(1)).square()
        asleep = torch.relu(1 - awake / floor)
        (margin + leak.mean(1) + asleep).sum().backward()
        optimizer.step()
        with torch.no_grad():
            now = Neuron(_long(weight, victim).clone(), bias.clone(), first.out)
            now = victim.aimed(plan.triggers, plan.gain, now)
            largest = _largest(victim, plan, now)
            better = largest < least
            least = torch.where(better, largest, least)
            best = Neuron(
                torch.where(better.unsqueeze(1), now.weight, best.weight),
                torch.where(better, now.bias, best.bias),
                torch.where(better, now.out, best.out),
            )
    return best


@torch.no_grad()
def _largest(victim: Victim, plan: Plan, neuron: Neuron) -> Tensor:
    """The largest change on the sample; infinite for a neuron that misses its trigger."""
    change = victim.change(plan.sample.unsqueeze(0), neuron).abs().amax(1)
    return torch.where(neuron.out == 0, torch.inf, change)


def _long(direction: Tensor, victim: Victim) -> Tensor:
    """Rows of the length of the network's longest filter."""
    length = victim.weight.norm(dim=1).max()
    return direction * (length / direction.norm(dim=1, keepdim=True).clamp_min(1e-12))


ATTACKS = {
    "no threshold": without_threshold,
    "threshold": with_threshold,
    "optimised": optimised,
}
