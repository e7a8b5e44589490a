"""What all tests share: reproducible property tests, and a generator for whatever is random."""

import hypothesis
import pytest
import torch

from ibnn import engine, sigma, solver

# The same examples in every run and no deadline: on a busy machine a slow example is not a bug.
hypothesis.settings.register_profile("ibnn", deadline=None, derandomize=True)
hypothesis.settings.load_profile("ibnn")


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture(autouse=True)
def known_as_before(monkeypatch):
    """What a test registers is forgotten after it."""
    for registry in (sigma.REGISTRY, solver.REGISTRY, engine._REGISTRY):
        monkeypatch.setattr(registry, "_named", dict(registry._named))
