"""Pipes: their steps, their one reader, and loaders over them."""

import pickle

import pytest

import flambeau as torch
from flambeau.utils.data import (
    DataChunk,
    DataLoader,
    IterDataPipe,
    functional_datapipe,
    guaranteed_datapipes_determinism,
    non_deterministic,
    runtime_validation,
    runtime_validation_disabled,
)  # fmt: skip
from flambeau.utils.data.datapipes.iter import IterableWrapper
from flambeau.utils.data.datapipes.map import SequenceWrapper
from flambeau.utils.data.graph import traverse_dps
from flambeau.utils.data.graph_settings import get_all_graph_pipes


def even(n):
    return n % 2 == 0


def double(n):
    return 2 * n


def numbers(count=10):
    return IterableWrapper(range(count))


def test_steps_of_streams():
    assert list(numbers(4).map(double)) == [0, 2, 4, 6]
    assert list(numbers(5).filter(even)) == [0, 2, 4]
    assert list(numbers(5).batch(2)) == [[0, 1], [2, 3], [4]]
    assert [type(b) for b in numbers(5).batch(2, drop_last=True)] == [DataChunk] * 2
    assert (
        list(numbers(8).batch(2).batch(2).unbatch(2))
        == list(numbers(8).batch(2).batch(2).unbatch(-1))
        == list(range(8))
    )
    assert [b.tolist() for b in numbers(4).batch(2).collate()] == [[0, 1], [2, 3]]
    assert list(numbers(2).concat(numbers(1))) == [0, 1, 0]
    assert list(numbers(2).zip(numbers(3))) == [(0, 0), (1, 1)]
    assert list(numbers(2).mux(IterableWrapper("ab"))) == [0, "a", 1, "b"]
    assert list(IterableWrapper([(1, 2)]).map(double, input_col=1)) == [(1, 4)]
    assert list(IterableWrapper([(1, 2)]).map(max, input_col=[0, 1], output_col=-1)) == [(1, 2, 2)]


def test_lengths():
    lengths = [len(p) for p in (numbers(), numbers().map(double), numbers().batch(3), numbers().shuffle())]
    assert lengths == [10, 10, 4, 10]
    with pytest.raises(TypeError):
        len(numbers().filter(even))


def test_random_orders_are_those_of_the_seed():
    assert list(numbers().shuffle().set_seed(3)) == [3, 9, 2, 4, 7, 6, 0, 8, 1, 5]
    torch.manual_seed(0)
    assert list(numbers(12).shuffle(buffer_size=4)) == [1, 2, 0, 6, 5, 7, 3, 9, 8, 10, 4, 11]
    assert list(SequenceWrapper(range(6)).shuffle().set_seed(1)) == [2, 3, 5, 0, 4, 1]
    assert list(numbers(4).shuffle().set_shuffle(False)) == [0, 1, 2, 3]


def test_one_reader():
    pipe = numbers()
    first = iter(pipe)
    next(first)
    next(iter(pipe))
    with pytest.raises(RuntimeError):
        next(first)


def test_steps_of_samples_with_keys():
    samples = SequenceWrapper(range(5))
    assert samples.map(double)[3] == 6 and list(samples.batch(2)) == [[0, 1], [2, 3], [4]]
    assert samples.concat(SequenceWrapper("ab"))[6] == "b" and samples.zip(SequenceWrapper("ab"))[1] == (1, "b")
    with pytest.raises(IndexError):
        samples.concat(samples)[10]


def test_steps_of_ones_own():
    @functional_datapipe("tripled_in_a_test")
    class Tripled(IterDataPipe):
        def __init__(self, source, by=3):
            self.source, self.by = source, by

        def __iter__(self):
            for n in self.source:
                yield self.by * n

    try:
        assert list(numbers(3).tripled_in_a_test().tripled_in_a_test(by=2)) == [0, 6, 12]
        with pytest.raises(Exception, match="already"):
            functional_datapipe("tripled_in_a_test")(Tripled)
    finally:
        del IterDataPipe.functions["tripled_in_a_test"]
    with pytest.raises(AttributeError):
        numbers().tripled_in_a_test  # noqa: B018


def test_graphs_and_pickles():
    pipe = numbers().map(double).zip(numbers())
    assert len(get_all_graph_pipes(traverse_dps(pipe))) == 4
    assert list(pickle.loads(pickle.dumps(numbers(3).map(double)))) == [0, 2, 4]


@pytest.mark.filterwarnings("ignore:DataLoader. .* workers share")
@pytest.mark.parametrize(
    "workers,expected", [(0, [[9, 2, 1], [4, 6, 8], [5, 3, 0], [7]]), (2, [[9, 1, 6], [2, 4, 8], [5, 0], [3, 7]])]
)
def test_loaders_shuffle_and_share(workers, expected):
    options = {"num_workers": workers, "multiprocessing_context": "fork" if workers else None}
    torch.manual_seed(1)
    loader = DataLoader(numbers().shuffle().sharding_filter(), batch_size=3, shuffle=True, **options)
    assert [b.tolist() for b in loader] == expected
    plain = DataLoader(numbers(4).shuffle().sharding_filter(), batch_size=4, shuffle=False, **options)
    assert sorted(n for b in plain for n in b.tolist()) == [0, 1, 2, 3]


def test_a_loader_adds_shuffling():
    with pytest.warns(UserWarning, match="shuffle"):
        loader = DataLoader(numbers(), batch_size=None, shuffle=True)
    assert sorted(loader) == list(range(10))


def test_determinism_and_types():
    @non_deterministic
    class Dice(IterDataPipe):
        def __iter__(self):
            yield 4

    assert list(Dice()) == [4]
    with guaranteed_datapipes_determinism(), pytest.raises(TypeError):
        Dice()

    class Whole(IterDataPipe[int]):
        @runtime_validation
        def __iter__(self):
            yield "no"

    with pytest.raises(RuntimeError):
        list(Whole())
    with runtime_validation_disabled():
        assert list(Whole()) == ["no"]


class _Every(torch.utils.data.Sampler):
    def __init__(self, step, data_source, start=0):
        self.step, self.start, self.data_source = step, start, data_source

    def __iter__(self):
        return iter(range(self.start, 9, self.step))


def test_arguments_of_a_pipes_sampler():
    sampler = torch.utils.data.datapipes.iter.Sampler
    assert list(sampler(IterableWrapper(range(9)), _Every, sampler_args=(2,), sampler_kwargs={"start": 1})) == [
        1,
        3,
        5,
        7,
    ]
    assert list(sampler(IterableWrapper(range(4)))) == [0, 1, 2, 3]
    assert list(sampler(IterableWrapper(range(4)), _Every, sampler_args=(4,))) == [0, 4, 8]


def test_zipped_pipes_end_with_the_shortest():
    zipped = SequenceWrapper(range(3)).zip(SequenceWrapper(dict(enumerate("abcde"))))
    assert len(zipped) == 3 and zipped[2] == (2, "c")
    with pytest.raises(IndexError):
        zipped[3]
