"""What all tests share: reproducible property tests, and a generator for whatever is random."""

import hypothesis
import pytest
import torch

# The same examples in every run and no deadline: on a busy machine a slow example is not a bug.
hypothesis.settings.register_profile("ibnn", deadline=None, derandomize=True)
hypothesis.settings.load_profile("ibnn")


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)
