"""Datasets: rows, joins, subsets and random parts."""

import pytest

import flambeau as torch
from flambeau.utils.data import (
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)  # fmt: skip


class Numbers(IterableDataset):
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        return iter(range(self.count))

    def __len__(self):
        return self.count


def test_base_classes():
    with pytest.raises(NotImplementedError):
        Dataset()[0]
    with pytest.raises(TypeError):
        len(Dataset())
    with pytest.raises(TypeError):
        IterableDataset()
    assert issubclass(Dataset[int].__origin__, Dataset)


def test_rows_of_tensors():
    data = TensorDataset(torch.arange(6).reshape(3, 2), torch.tensor([7, 8, 9]))
    assert len(data) == 3
    assert data[1][0].tolist() == [2, 3] and data[1][1].item() == 8
    assert data[1:][1].tolist() == [8, 9]
    with pytest.raises(AssertionError):
        TensorDataset(torch.zeros(2), torch.zeros(3))


def test_side_by_side():
    assert StackDataset("ab", [1, 2])[1] == ("b", 2)
    assert StackDataset(x="ab", y=[1, 2])[0] == {"x": "a", "y": 1}
    assert StackDataset("abc", Subset("xyz", [2, 1, 0])).__getitems__([0, 2]) == [("a", "z"), ("c", "x")]
    assert StackDataset(x="ab").__getitems__([1]) == [{"x": "b"}]
    for wrong in (lambda: StackDataset(), lambda: StackDataset("a", x="b"), lambda: StackDataset("a", "bc")):
        with pytest.raises(ValueError):
            wrong()


def test_wrong_number_of_samples():
    class Few(list):
        def __getitems__(self, keys):
            return [0]

    with pytest.raises(ValueError):
        StackDataset(Few("ab")).__getitems__([0, 1])


def test_one_after_the_other():
    data = ConcatDataset(["ab", "cde"])
    assert [data[i] for i in (0, 1, 2, 4, -1, -5)] == ["a", "b", "c", "e", "e", "a"]
    assert len(data) == 5 and data.cumulative_sizes == [2, 5]
    with pytest.raises(ValueError):
        data[-6]
    with pytest.raises(IndexError):
        data[5]
    for wrong in ([], [Numbers(2)]):
        with pytest.raises(AssertionError):
            ConcatDataset(wrong)
    with pytest.warns(FutureWarning):
        assert data.cummulative_sizes == [2, 5]


def test_chains():
    chain = Numbers(2) + Numbers(3)
    assert isinstance(chain, ChainDataset) and list(chain) == [0, 1, 0, 1, 2] and len(chain) == 5
    with pytest.raises(AssertionError):
        list(ChainDataset([TensorDataset(torch.zeros(1))]))
    assert len(TensorDataset(torch.zeros(2)) + TensorDataset(torch.zeros(3))) == 5


def test_subsets():
    part = Subset("abcdef", [4, 0, 2])
    assert len(part) == 3 and part[0] == "e" and part.__getitems__([2, 1]) == ["c", "a"]
    rows = Subset(TensorDataset(torch.arange(10)), [5, 6, 7])
    assert rows[[0, 2]][0].tolist() == [5, 7]
    assert Subset(rows, [2])[0][0].item() == 7
    with pytest.raises(IndexError):
        part[3]


def test_random_parts_are_those_of_the_seed():
    torch.manual_seed(0)
    parts = random_split(range(10), [0.3, 0.3, 0.4])
    assert [p.indices for p in parts] == [[4, 1, 7], [5, 3, 9], [0, 8, 6, 2]]
    torch.manual_seed(0)
    assert [p.indices for p in random_split(range(10), [4, 6])] == [[4, 1, 7, 5], [3, 9, 0, 8, 6, 2]]
    once, again = (random_split(range(9), [4, 5], torch.Generator().manual_seed(3)) for _ in range(2))
    assert [p.indices for p in once] == [p.indices for p in again]


def test_lengths_of_random_parts():
    assert [len(p) for p in random_split(range(10), [1 / 3] * 3)] == [4, 3, 3]
    for lengths in ([3, 3], [0.5, 0.6], [-0.5, 1.5]):
        with pytest.raises(ValueError):
            random_split(range(10), lengths)
    with pytest.warns(UserWarning):
        assert [len(p) for p in random_split(range(10), [1.0, 0.0])] == [10, 0]


@pytest.mark.parametrize(
    ("indices", "rows"),
    [
        ([-1, 0], [[5, 0]]),
        (range(2, 5), [[2, 3], [4]]),
        ([[0, 1], [2, 3]], [[[0, 1], [2, 3]]]),
        ([slice(0, 2), slice(2, 4)], [[[0, 1], [2, 3]]]),
        ([torch.tensor(2), torch.tensor(0)], [[2, 0]]),
        ([True, True], [[[[0, 1, 2, 3, 4, 5]], [[0, 1, 2, 3, 4, 5]]]]),
    ],
)
def test_subsets_take_what_their_indices_say(indices, rows):
    data = TensorDataset(torch.arange(6))
    assert [batch.tolist() for (batch,) in DataLoader(Subset(data, indices), batch_size=2)] == rows


def test_subsets_refuse_indices_that_are_none():
    data = TensorDataset(torch.arange(6))
    for wrong in ([7], [-7], [1.0, 2.0]):
        with pytest.raises(IndexError):
            list(DataLoader(Subset(data, wrong), batch_size=2))
    with pytest.raises(RuntimeError, match="equal size"):
        list(DataLoader(Subset(data, [True, False]), batch_size=2))


def test_what_rounding_leaves_goes_to_the_first_parts():
    for total, fractions, expected in (
        (11, [1 / 3] * 3, [4, 4, 3]),
        (10, [0.25, 0.25, 0.5], [3, 2, 5]),
        (9, [1 / 3] * 3, [3, 3, 3]),
    ):
        parts = torch.utils.data.random_split(range(total), fractions)
        assert [len(part) for part in parts] == expected
        assert sorted(i for part in parts for i in part) == list(range(total))
