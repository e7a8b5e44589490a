"""The attacker: three ways to choose the added neuron (Tyukin et al., and as the paper has it).

The attacker knows the network, a trigger and a sample of data like the training data, never the
owner's verification set.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ibnn.lab.theory_checks.stealth.network import AddedNeuron, Victim, aim

# Chosen on digits so that the attack on a standard network succeeds, and used for every network:
WAKES_AT = 0.8  # of the way from the middle of the data to the trigger
MARGIN = 0.25  # how far below zero it is kept on the sample, in units of its value at the trigger
FLOOR = 0.05  # least value at the trigger, as a fraction of filter length times distance
RATE = 0.02  # of Adam


@dataclass(frozen=True)
class Plan:
    """What the attacker wants: `gain` is added to the score of each trigger."""

    triggers: Tensor  # (T, inputs)
    gain: Tensor  # (T,)
    sample: Tensor  # (n, inputs)
    steps: int
    length: float = 1.0  # of the added filter, in lengths of the network's longest


def without_threshold(victim: Victim, plan: Plan) -> AddedNeuron:
    """As the paper writes it: the filter is parallel to the trigger, the bias zero."""
    weight = _long(plan.triggers, victim, plan)
    start = AddedNeuron(weight, weight.new_zeros(len(weight)), weight.new_zeros(len(weight)))
    return victim.aimed(plan.triggers, plan.gain, start)


def with_threshold(victim: Victim, plan: Plan) -> AddedNeuron:
    """Tyukin et al.: the neuron is active only near the trigger, seen from the mean of the data."""
    middle = plan.sample.mean(0)
    weight = _long(plan.triggers - middle, victim, plan)
    reach = ((plan.triggers - middle) * weight).sum(1)
    start = AddedNeuron(weight, -weight @ middle - WAKES_AT * reach, torch.zeros_like(reach))
    return victim.aimed(plan.triggers, plan.gain, start)


def optimized(victim: Victim, plan: Plan) -> AddedNeuron:
    """From there, gradient steps through the exact solve: the same number for every network.

    Wanted: inactive on the sample with a margin, active at the trigger, no change of any score of
    the sample. The neuron that comes closest is kept.
    """
    first = with_threshold(victim, plan)
    weight, bias = (value.clone().requires_grad_() for value in (first.weight, first.bias))
    optimizer = torch.optim.Adam([weight, bias], RATE)
    distance = (plan.triggers - plan.sample.mean(0)).norm(dim=1)
    floor = FLOOR * distance * first.weight.norm(dim=1)
    # the trigger comes last, so that one solve serves the sample and the trigger
    shown = plan.sample.expand(len(plan.gain), *plan.sample.shape)
    seen = victim.respond(torch.cat([shown, plan.triggers.unsqueeze(1)], 1))
    best, least = first, torch.full_like(plan.gain, torch.inf)
    for _ in range(plan.steps + 1):
        optimizer.zero_grad()
        neuron = AddedNeuron(_long(weight, victim, plan), bias, first.out)
        own, added = victim.attacked(seen, neuron)
        awake = added[:, -1]
        out = aim(plan.gain, own[:, -1], awake)
        change = (own + out.unsqueeze(1) * torch.relu(added))[:, :-1] / plan.gain.unsqueeze(1)
        scale = torch.maximum(awake, floor).unsqueeze(1)
        margin = torch.relu(added[:, :-1] / scale + MARGIN).square().mean(1)
        asleep = torch.relu(1 - awake / floor)
        cost = margin + change.square().mean(1) + asleep
        cost.sum().backward()
        with torch.no_grad():
            reached = torch.where(awake > 0, cost, torch.inf)
            best = _better(reached < least, (neuron.weight, bias, out), best)
            least = torch.minimum(reached, least)
        optimizer.step()
    return best


def _better(where: Tensor, now: tuple[Tensor, Tensor, Tensor], best: AddedNeuron) -> AddedNeuron:
    weight, bias, out = (value.detach().clone() for value in now)
    return AddedNeuron(
        torch.where(where.unsqueeze(1), weight, best.weight),
        torch.where(where, bias, best.bias),
        torch.where(where, out, best.out),
    )


def _long(direction: Tensor, victim: Victim, plan: Plan) -> Tensor:
    """Rows of the length asked for."""
    length = plan.length * victim.weight.norm(dim=1).max()
    return direction * (length / direction.norm(dim=1, keepdim=True).clamp_min(1e-12))


ATTACKS = {
    "no threshold": without_threshold,
    "threshold": with_threshold,
    "optimized": optimized,
}
