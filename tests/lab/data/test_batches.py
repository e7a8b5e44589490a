"""Batches put together are the whole, scaled to [0, 1]."""

import pytest
import torch

from ibnn.lab import data

X = torch.arange(256, dtype=torch.uint8).reshape(64, 1, 2, 2)
Y = torch.arange(64)


def joined(*arguments):
    parts = list(data.batches(*arguments))
    return torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts])


@pytest.mark.parametrize("size", [1, 7, 64, 100])
def test_in_order_they_are_the_whole(size):
    x, y = joined(X, Y, size, None)
    assert x.dtype == torch.float32
    assert torch.equal(x, X.float() / 255)
    assert torch.equal(y, Y)


@pytest.mark.parametrize("size", [1, 7, 64])
def test_shuffled_they_are_the_whole_in_another_order(size):
    x, y = joined(X, Y, size, torch.Generator().manual_seed(0))
    assert not torch.equal(y, Y)
    assert torch.equal(y.sort().values, Y)
    assert torch.equal(x, X[y].float() / 255)


def test_the_generator_alone_decides_the_order():
    torch.manual_seed(1)
    first = joined(X, Y, 8, torch.Generator().manual_seed(3))[1]
    torch.manual_seed(2)
    again = torch.Generator().manual_seed(3)
    assert torch.equal(joined(X, Y, 8, again)[1], first)
    assert not torch.equal(joined(X, Y, 8, again)[1], first)  # the next epoch


def test_the_order_does_not_depend_on_the_batch_size():
    orders = [joined(X, Y, size, torch.Generator().manual_seed(3))[1] for size in (5, 64)]
    assert torch.equal(*orders)


def test_floats_are_left_alone_and_changing_a_batch_leaves_the_data_alone():
    x = torch.randn(10, 2, generator=torch.Generator().manual_seed(0))
    before = x.clone()
    for part, _ in data.batches(x, Y[:10], 4):
        assert not torch.equal(part, part.zero_().add_(5) / 255)
    assert torch.equal(x, before)
    assert torch.equal(joined(x, Y[:10], 4)[0], before)


def test_the_sizes_are_as_asked_but_for_the_last():
    assert [len(y) for _, y in data.batches(X, Y, 30)] == [30, 30, 4]


def test_impossible_requests_are_refused_at_the_call():
    with pytest.raises(ValueError, match="batch_size=0"):
        data.batches(X, Y, 0)
    with pytest.raises(ValueError, match="x has 64 examples but y has 63"):
        data.batches(X, Y[:63], 8)
