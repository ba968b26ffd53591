"""Pipes that split streams, group samples, read files, and take columns."""

import pickle

import pytest

from flambeau.utils.data import IterDataPipe
from flambeau.utils.data.datapipes.iter import FileLister, FileOpener, IterableWrapper, Sampler
from flambeau.utils.data.datapipes.iter.sharding import SHARDING_PRIORITIES
from flambeau.utils.data.datapipes.map import SequenceWrapper
from flambeau.utils.data.graph import traverse_dps
from flambeau.utils.data.graph_settings import apply_sharding, get_all_graph_pipes


def odd(n):
    return n % 2


def numbers(count=6):
    return IterableWrapper(range(count))


def test_copies_of_a_stream_are_read_in_one_pass():
    first, second, third = numbers(4).fork(3)
    assert list(zip(first, second, third)) == [(n, n, n) for n in range(4)]
    assert list(first) == list(second) == [0, 1, 2, 3] and len(third) == 4
    one = numbers()
    assert one.fork(1) is one
    lists = IterableWrapper([[1], [2]], deepcopy=False)
    same, other = lists.fork(2)
    assert all(a is b for a, b in zip(same, other))
    same, other = lists.fork(2, copy="deep")
    assert all(a == b and a is not b for a, b in zip(same, other))
    with pytest.raises(ValueError, match="num_instances"):
        numbers().fork(0)
    with pytest.raises(ValueError, match="'shallow' or 'deep'"):
        numbers().fork(2, copy="some")


def test_copies_wait_for_the_slowest():
    first, second = numbers(5).fork(2, buffer_size=2)
    assert [pair for pair in zip(first, second)][-1] == (4, 4)
    with pytest.raises(BufferError, match="buffer size 2 is insufficient"):
        list(first)
    with pytest.warns(UserWarning, match="without end"):
        first, second = numbers(2000).fork(2, buffer_size=-1)
    assert len(list(first)) == len(list(second)) == 2000


def test_a_new_reader_of_a_part_begins_a_new_pass():
    first, second = numbers(4).fork(2)
    i, j = iter(first), iter(second)
    assert (next(i), next(j), next(i)) == (0, 0, 1)
    again = iter(first)
    assert next(again) == 0
    with pytest.raises(RuntimeError, match="This iterator has been invalidated"):
        next(j)
    assert list(second) == [0, 1, 2, 3]


def test_kinds_of_samples_go_apart():
    even, others = numbers(7).demux(2, odd)
    assert (list(even), list(others)) == ([0, 2, 4, 6], [1, 3, 5])
    even, others = pickle.loads(pickle.dumps(numbers(7).demux(2, odd)))
    assert (list(others), list(even)) == ([1, 3, 5], [0, 2, 4, 6])
    with pytest.raises(TypeError, match="valid length"):
        len(even)
    low, high = numbers(4).demux(2, lambda n: n if n < 2 else None, drop_none=True)
    assert (list(low), list(high)) == ([0], [1])
    for kind in (None, 5):
        with pytest.raises(ValueError, match="between 0 and 1"):
            list(numbers().demux(2, lambda n, kind=kind: kind)[0])
    with pytest.raises(BufferError, match="buffer size 10"):
        list(numbers(99).demux(2, lambda n: 1, buffer_size=10)[0])


def test_groups():
    names = IterableWrapper(["a1", "b1", "a2", "b2", "a3", "c1"])

    def key(name):
        return name[0]

    assert list(names.groupby(key)) == [["a1", "a2", "a3"], ["b1", "b2"], ["c1"]]
    assert list(names.groupby(key, group_size=2)) == [["a1", "a2"], ["b1", "b2"], ["a3"], ["c1"]]
    assert list(names.groupby(key, keep_key=True))[1] == ("b", ["b1", "b2"])
    full = {"group_size": 3, "buffer_size": 3}
    assert list(names.groupby(key, guaranteed_group_size=2, **full)) == [["a1", "a2"], ["b1", "b2"], ["a3"], ["c1"]]
    assert list(names.groupby(key, drop_remaining=True, **full)) == [["a3"], ["c1"]]
    with pytest.raises(RuntimeError, match="larger buffer_size"):
        list(names.groupby(key, **full))
    for wrong in ({"group_size": 0}, {"buffer_size": 0}, {"guaranteed_group_size": 2}):
        with pytest.raises(ValueError, match="groupby"):
            names.groupby(key, **wrong)


def test_files(tmp_path):
    for name in ("b.txt", "a.txt", "c.png", "deep/z.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name * 2)

    def listed(*args, **options):
        return [path.removeprefix(f"{tmp_path}/") for path in FileLister(str(tmp_path), *args, **options)]

    assert listed() == ["a.txt", "b.txt", "c.png"]
    assert listed(["*.png", "b*"]) == ["b.txt", "c.png"]
    assert listed("*.txt", recursive=True) == ["a.txt", "b.txt", "deep/z.txt"]
    paths = IterableWrapper([str(tmp_path)]).list_files("*.txt")
    assert [(path[-5:], file.read()) for path, file in paths.open_files("b")] == [
        ("a.txt", b"a.txta.txt"), ("b.txt", b"b.txtb.txt")
    ]  # fmt: skip
    assert [piece for _, piece in paths.open_files().read_from_stream(4)] == [
        "a.tx",
        "ta.t",
        "xt",
        "b.tx",
        "tb.t",
        "xt",
    ]
    assert [text for _, text in paths.open_files().read_from_stream()] == ["a.txta.txt", "b.txtb.txt"]
    ((_, file),) = FileOpener([tmp_path / "a.txt"])
    with file as opened:
        assert opened.readable() and not opened.closed
    assert file.closed and file.file_obj.closed
    with pytest.raises(ValueError, match="Invalid mode w"):
        FileOpener(paths, mode="w")
    with pytest.raises(TypeError, match="valid length"):
        len(paths)
    assert len(FileLister(str(tmp_path), length=3)) == 3


def test_columns():
    rows = IterableWrapper([("a", 1, 3)])
    assert list(rows.map(lambda x, y: x + y, input_col=[1, 2])) == [("a", 4)]
    assert list(rows.map(lambda x, y: x + y, input_col=[1, 2], output_col=0)) == [(4, 1, 3)]
    assert list(IterableWrapper([{"a": 1, "b": 2}]).map(lambda x, y: x + y, input_col=["a", "b"])) == [{"a": 3}]
    for wrong in (
        lambda: rows.map(odd, input_col=[0, 1]),
        lambda: rows.filter(lambda: True),
        lambda: rows.map(lambda x, y: x),
    ):
        with pytest.raises(ValueError, match="cannot take"):
            wrong()
    with pytest.raises(ValueError, match="Boolean output is required"):
        list(numbers().filter(odd))


class Endless(IterDataPipe):
    def __iter__(self):
        yield from range(3)


def test_lengths_that_are_not_known():
    for step in ("batch", "map", "collate", "shuffle", "zip", "concat"):
        given = {"batch": (2,), "map": (odd,), "zip": (Endless(),), "concat": (Endless(),)}.get(step, ())
        pipe = getattr(Endless(), step)(*given)
        with pytest.raises(TypeError, match=f"{type(pipe).__name__} instance doesn't have valid length"):
            len(pipe)
    with pytest.raises(AssertionError, match="__len__"):
        Sampler(Endless())
    for step in ("zip", "concat"):
        with pytest.raises(TypeError, match="IterDataPipe"):
            getattr(numbers(), step)([1])


def test_shares_of_groups():
    pipe = numbers(12).sharding_filter()
    apply_sharding(pipe, 2, 1, SHARDING_PRIORITIES.DISTRIBUTED)
    apply_sharding(pipe, 3, 2, SHARDING_PRIORITIES.MULTIPROCESSING)
    assert list(pipe) == [5, 11] and len(pipe) == 2
    with pytest.raises(RuntimeError, match="cannot mix DEFAULT"):
        apply_sharding(pipe, 2, 0)
    with pytest.raises(RuntimeError, match="Sharding twice"):
        apply_sharding(numbers().sharding_filter().map(odd).sharding_filter(), 2, 0)


def test_split_pipes_in_graphs_and_pickles():
    first, second = numbers().fork(2)
    both = first.zip(second.map(odd))
    assert sorted(map(repr, get_all_graph_pipes(traverse_dps(both))))[0] == "ForkerIterDataPipe"
    assert list(pickle.loads(pickle.dumps(both)))[:2] == [(0, 0), (1, 1)]
    assert list(pickle.loads(pickle.dumps(SequenceWrapper([1, 2]).map()))) == [1, 2]
    assert both.groupby.__doc__.startswith("Batches of samples")
