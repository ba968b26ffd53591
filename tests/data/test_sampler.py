"""Samplers: the orders that a seed gives, and how they are cut into batches."""

import pytest

import flambeau as torch
from flambeau.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def test_base_class():
    with pytest.raises(NotImplementedError):
        iter(Sampler())
    with pytest.raises(TypeError):
        len(Sampler())


def test_orders_that_pytorch_has_for_the_seed():
    assert list(SequentialSampler(range(4))) == [0, 1, 2, 3]
    assert list(RandomSampler(range(40), num_samples=5)) == [26, 15, 8, 39, 37]
    assert list(RandomSampler(range(40), num_samples=5)) == [26, 34, 19, 23, 13]
    torch.manual_seed(0)
    drawn = list(RandomSampler(range(40), replacement=True, num_samples=70))
    assert len(drawn) == 70 and drawn[:5] + drawn[31:34] == [26, 10, 4, 13, 9, 9, 4, 16]
    torch.manual_seed(0)
    assert list(SubsetRandomSampler([5, 6, 7, 8])) == [5, 6, 8, 7]


def test_more_samples_than_there_are():
    order = list(RandomSampler(range(4), num_samples=10))
    assert len(order) == 10 and sorted(order[:4]) == sorted(order[4:8]) == [0, 1, 2, 3]


def test_a_given_generator_moves_on_by_one_order_more():
    """Whoever shares the generator sees the same numbers as with PyTorch."""
    ours, theirs = torch.Generator().manual_seed(5), torch.Generator().manual_seed(5)
    list(RandomSampler(range(6), generator=ours))
    torch.randperm(6, generator=theirs), torch.randperm(6, generator=theirs)
    assert torch.equal(ours.get_state(), theirs.get_state())


def test_weights():
    drawn = list(WeightedRandomSampler([0.0, 1.0, 0.0, 3.0], 200))
    assert set(drawn) == {1, 3} and 110 < drawn.count(3) < 190
    assert sorted(WeightedRandomSampler([1.0, 1.0, 1.0], 3, replacement=False)) == [0, 1, 2]


@pytest.mark.parametrize("count,size", [(7, 3), (6, 3), (2, 3), (70, 33), (65, 32)])
@pytest.mark.parametrize("drop_last", [False, True])
def test_batches(count, size, drop_last):
    batches = list(BatchSampler(range(count), size, drop_last))
    assert len(batches) == len(BatchSampler(range(count), size, drop_last))
    assert [n for batch in batches for n in batch] == list(range(count - count % size if drop_last else count))
    assert all(len(b) == size for b in batches[:-1])


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("wanted", [5, 40, 100])
@pytest.mark.parametrize("drop_last", [False, True])
def test_arrays_of_keys_are_the_keys(replacement, wanted, drop_last):
    """The loader's quick way gives the same batches and leaves the generator at the same place."""
    generators = [torch.Generator().manual_seed(9) for _ in range(2)]
    plain, quick = (
        BatchSampler(RandomSampler(range(40), replacement, wanted, generator=g), 7, drop_last) for g in generators
    )
    assert list(plain) == [rows.tolist() for rows in quick._rows()]
    assert torch.equal(generators[0].get_state(), generators[1].get_state())


def test_subclasses_have_their_own_order():
    class Backwards(RandomSampler):
        def __iter__(self):
            return iter(range(len(self.data_source) - 1, -1, -1))

    class Pairs(BatchSampler):
        def __iter__(self):
            yield [0, 0]

    assert BatchSampler(Backwards(range(3)), 2, False)._rows() is None
    assert Pairs(RandomSampler(range(3)), 2, False)._rows() is None
    assert BatchSampler(range(3), 2, False)._rows() is None


def test_parts_of_processes():
    assert [list(DistributedSampler(range(11), 3, r)) for r in range(3)] == [[10, 3, 2, 7], [0, 5, 1, 6], [4, 8, 9, 10]]
    plain = [list(DistributedSampler(range(11), 3, r, shuffle=False)) for r in range(3)]
    assert plain == [[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8, 0]]
    short = [list(DistributedSampler(range(11), 3, r, shuffle=False, drop_last=True)) for r in range(3)]
    assert short == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]
    assert [list(DistributedSampler(range(2), 5, r, shuffle=False)) for r in range(5)] == [[0], [1], [0], [1], [0]]
    sampler = DistributedSampler(range(100), 2, 0)
    first = list(sampler)
    sampler.set_epoch(1)
    assert list(sampler) != first and len(sampler) == 50


@pytest.mark.parametrize(
    "error,make",
    [
        (TypeError, lambda: RandomSampler(range(4), replacement=1)),
        (ValueError, lambda: RandomSampler(range(4), num_samples=0)),
        (ValueError, lambda: RandomSampler([])),
        (ValueError, lambda: WeightedRandomSampler([1.0], 0)),
        (ValueError, lambda: WeightedRandomSampler([1.0], 1, replacement=3)),
        (ValueError, lambda: WeightedRandomSampler([[1.0]], 1)),
        (ValueError, lambda: BatchSampler(range(4), 0, False)),
        (ValueError, lambda: BatchSampler(range(4), True, False)),
        (ValueError, lambda: BatchSampler(range(4), 2, 1)),
        (ValueError, lambda: DistributedSampler(range(4), 2, 2)),
    ],
)
def test_wrong_arguments(error, make):
    with pytest.raises(error):
        make()
