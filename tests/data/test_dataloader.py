"""`DataLoader` in one process: batches, orders, random state and arguments."""

import pytest

import flambeau as torch
from flambeau.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Subset,
    TensorDataset,
)  # fmt: skip


class Squares(Dataset):
    def __init__(self, count=10):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        return torch.tensor([i, i * i])


class Numbers(IterableDataset):
    def __init__(self, count, told=None):
        self.count, self.told = count, told

    def __iter__(self):
        return iter(range(self.count))

    def __len__(self):
        if self.told is None:
            raise TypeError("no length")
        return self.told


ROWS = TensorDataset(torch.arange(20).reshape(10, 2).float(), torch.arange(10))


def keys(loader):
    return [batch[1].tolist() for batch in loader]


def test_the_order_that_pytorch_has_for_the_seed():
    torch.manual_seed(1)
    loader = DataLoader(ROWS, batch_size=4, shuffle=True)
    assert keys(loader) == [[4, 2, 0, 6], [8, 7, 9, 1], [5, 3]]
    assert keys(loader) == [[4, 8, 1, 5], [0, 2, 3, 6], [9, 7]]


@pytest.mark.parametrize("generator", [None, 5])
def test_when_random_numbers_are_drawn(generator):
    """A seed when the pass begins, the order at the first batch, one order more when it ends."""
    torch.manual_seed(3)
    g = None if generator is None else torch.Generator().manual_seed(generator)
    follows = torch.Generator().manual_seed(3 if g is None else generator)

    def same():
        state = torch.get_rng_state() if g is None else g.get_state()
        return torch.equal(state, follows.get_state())

    def draw():
        torch.empty((), dtype=torch.int64).random_(generator=follows)

    loader = DataLoader(ROWS, batch_size=5, shuffle=True, generator=g)
    assert same()
    batches = iter(loader)
    draw()
    assert same()
    next(batches)
    draw() if g is None else torch.randperm(10, generator=follows)
    assert same()
    assert len(list(batches)) == 1
    if g is not None:
        torch.randperm(10, generator=follows)
    assert same()


def test_batches():
    assert [b.shape[0] for b in DataLoader(Squares(1000), batch_size=32)] == [32] * 31 + [8]
    assert len(DataLoader(Squares(1000), batch_size=32)) == 32
    assert len(DataLoader(Squares(1000), batch_size=32, drop_last=True)) == 31
    assert keys(DataLoader(ROWS, batch_size=4, drop_last=True)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert [type(b) for b in DataLoader(ROWS, batch_size=4)] == [list] * 3
    assert sorted(n for batch in keys(DataLoader(ROWS, batch_size=3, shuffle=True)) for n in batch) == list(range(10))


def test_without_batches():
    single = list(DataLoader(ROWS, batch_size=None))
    assert type(single[0]) is list and single[3][0].tolist() == [6.0, 7.0] and single[3][1].shape == ()
    assert list(DataLoader("abc", batch_size=None)) == ["a", "b", "c"]


def test_samplers():
    assert keys(DataLoader(ROWS, batch_size=2, sampler=[3, 1, 2])) == [[3, 1], [2]]
    assert keys(DataLoader(ROWS, batch_sampler=[[3, 1], [2], [5, 5, 5]])) == [[3, 1], [2], [5, 5, 5]]
    assert len(DataLoader(ROWS, batch_size=2, sampler=[3, 1, 2])) == 2
    with pytest.raises(IndexError):
        list(DataLoader(ROWS, sampler=RandomSampler(range(200), num_samples=100), batch_size=100))


def test_collate_fn_and_any_sequence():
    assert list(DataLoader(range(5), batch_size=2, collate_fn=sum)) == [1, 5, 4]
    assert [b.tolist() for b in DataLoader(range(3), batch_size=2)] == [[0, 1], [2]]


def test_methods_of_subclasses_are_honoured():
    class Negative(TensorDataset):
        def __getitem__(self, i):
            return tuple(-t[i] for t in self.tensors)

    class Shifted(Subset):
        def __getitems__(self, indices):
            return [(100 + i,) for i in indices]

    loader = DataLoader(Negative(torch.arange(4)), batch_size=2)
    assert [b.tolist() for (b,) in loader] == [[0, -1], [-2, -3]]
    assert [b.tolist() for (b,) in DataLoader(Shifted(ROWS, [0, 1, 2]), batch_size=2)] == [[100, 101], [102]]


def test_whole_batches_equal_collated_samples():
    class Single(Dataset):
        def __init__(self, data):
            self.data = data

        def __len__(self):
            return len(self.data)

        def __getitem__(self, i):
            return self.data[i]

    tensors = torch.randn(9, 3, 2), torch.randn(9, 4).t()[:1].t(), torch.arange(9), torch.randn(9, 2).bfloat16()
    whole = TensorDataset(*tensors)
    for data in (whole, Subset(whole, [8, 0, 3, 3]), Subset(Subset(whole, [5, 6, 7]), [2, 0])):
        for a, b in zip(DataLoader(data, batch_size=2), DataLoader(Single(data), batch_size=2)):
            assert all(x.dtype is y.dtype and x.stride() == y.stride() and torch.equal(x, y) for x, y in zip(a, b))


def test_batches_are_copies():
    data = TensorDataset(torch.zeros(4))
    next(iter(DataLoader(data, batch_size=4)))[0].add_(1)
    assert data.tensors[0].sum() == 0


def test_rows_that_require_grad():
    x = torch.ones(4, requires_grad=True)
    next(iter(DataLoader(TensorDataset(x), batch_size=2)))[0].sum().backward()
    assert x.grad.tolist() == [1, 1, 0, 0]


def test_iterable_datasets():
    assert [b.tolist() for b in DataLoader(Numbers(5), batch_size=2)] == [[0, 1], [2, 3], [4]]
    assert [b.tolist() for b in DataLoader(Numbers(5), batch_size=2, drop_last=True)] == [[0, 1], [2, 3]]
    assert list(DataLoader(Numbers(3), batch_size=None)) == [0, 1, 2]
    with pytest.raises(TypeError):
        len(DataLoader(Numbers(3)))
    assert len(DataLoader(Numbers(7, told=7), batch_size=2)) == 4


def test_a_wrong_length_of_an_iterable_dataset_warns():
    loader = DataLoader(Numbers(3, told=2))
    assert len(list(loader)) == 3  # nobody has asked for the length
    assert len(loader) == 2
    with pytest.warns(UserWarning, match="but 3 samples have been fetched"):
        assert len(list(loader)) == 3


def test_two_passes_at_once():
    loader = DataLoader(range(4), batch_size=2)
    assert [(a.tolist(), b.tolist()) for a, b in zip(loader, loader)] == [([0, 1], [0, 1]), ([2, 3], [2, 3])]


@pytest.mark.parametrize(
    "options",
    [
        {"num_workers": -1}, {"timeout": -1}, {"prefetch_factor": 2}, {"num_workers": 1, "prefetch_factor": -1},
        {"persistent_workers": True}, {"batch_size": 0}, {"batch_size": 1.5}, {"batch_size": True}, {"drop_last": 3},
        {"sampler": [1], "shuffle": True}, {"batch_sampler": [[1]], "batch_size": 2},
        {"batch_sampler": [[1]], "shuffle": True}, {"batch_sampler": [[1]], "sampler": [1]},
        {"batch_sampler": [[1]], "drop_last": True}, {"batch_size": None, "drop_last": True},
        {"multiprocessing_context": "fork"}, {"num_workers": 1, "multiprocessing_context": "nothing"},
    ],
)  # fmt: skip
def test_arguments_that_do_not_go_together(options):
    with pytest.raises(ValueError):
        DataLoader(Squares(), **options)


def test_arguments_of_wrong_types():
    with pytest.raises(TypeError):
        DataLoader(Squares(), num_workers=1, multiprocessing_context=3)
    with pytest.raises(TypeError):
        DataLoader(Squares(), num_workers=None)
    for options in ({"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]]}):
        with pytest.raises(ValueError):
            DataLoader(Numbers(3), **options)


def test_what_can_be_changed_later():
    loader = DataLoader(Squares(), batch_size=2)
    for name in ("batch_size", "dataset", "sampler", "batch_sampler", "drop_last", "persistent_workers"):
        with pytest.raises(ValueError):
            setattr(loader, name, None)
    loader.collate_fn = len
    assert list(loader) == [2] * 5
    assert type(loader.sampler).__name__ == "SequentialSampler" and type(loader.batch_sampler) is BatchSampler


def test_pinning_without_a_gpu_warns():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.warns(UserWarning, match="pin_memory"):
        assert not next(iter(DataLoader(Squares(), pin_memory=True))).is_pinned()


@pytest.mark.gpu
@pytest.mark.parametrize("workers", [0, 2])
def test_pinned_batches(workers):
    """Small batches are copied to pinned memory, large ones of workers lie in it from the beginning."""
    data = TensorDataset(torch.arange(8), torch.arange(8).reshape(8, 1).expand(8, 10_000).contiguous())
    loader = DataLoader(data, batch_size=4, pin_memory=True, num_workers=workers, persistent_workers=workers > 0)
    for _ in range(5):
        batches = list(loader)
        assert all(x.is_pinned() for batch in batches for x in batch)
        assert [b[1].cuda().sum().item() for b in batches] == [60_000, 220_000]
    assert not torch.ones(3).is_pinned() and torch.ones(3).pin_memory().is_pinned()
