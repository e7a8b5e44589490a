"""Attacks on any torch model: images in [0, 1] in, one verdict per image out."""

from ibnn.lab.attacks.attack import Attack, Attacked
from ibnn.lab.attacks.ball import Norm

__all__ = ["Attack", "Attacked", "Norm"]
