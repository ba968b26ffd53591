"""Collating: what is stacked, in which containers, and what cannot be."""

import collections

import numpy as np
import pytest

import flambeau as torch
from flambeau.utils.data import default_collate, default_convert
from flambeau.utils.data._utils.collate import collate

Point = collections.namedtuple("Point", "x y")


class Named(dict):
    pass


class Row(list):
    pass


@pytest.mark.parametrize(
    "batch,dtype,values",
    [
        ([1, 2], torch.int64, [1, 2]),
        ([1.5, 2.0], torch.float64, [1.5, 2.0]),
        ([True, False], torch.bool, [True, False]),
        ([np.float16(1), np.float16(2)], torch.float16, [1.0, 2.0]),
        ([np.array(1), np.array(2)], torch.int64, [1, 2]),
        ([np.ones(2, np.float32)] * 2, torch.float32, [[1.0, 1.0]] * 2),
        ([np.arange(6).reshape(2, 3)[:, ::2]], torch.int64, [[[0, 2], [3, 5]]]),
        ([torch.tensor(3), torch.tensor(4)], torch.int64, [3, 4]),
        ([torch.zeros(0)] * 2, torch.float32, [[], []]),
        ([torch.ones(1), torch.ones(1, dtype=torch.float64)], torch.float64, [[1.0], [1.0]]),
        ([torch.ones(2, dtype=torch.bfloat16)] * 2, torch.bfloat16, [[1.0, 1.0]] * 2),
        ([torch.arange(4).reshape(2, 2).t()] * 2, torch.int64, [[[0, 2], [1, 3]]] * 2),
    ],
)
def test_stacked(batch, dtype, values):
    made = default_collate(batch)
    assert made.dtype is dtype and made.tolist() == values and made.is_contiguous()


def test_a_batch_is_a_copy():
    rows = [torch.zeros(3), torch.zeros(3)]
    default_collate(rows).add_(1)
    assert rows[0].sum() == 0
    array = np.zeros(2)
    default_collate([array]).add_(1)
    assert array.sum() == 0


def test_gradients_go_through():
    x = torch.ones(2, requires_grad=True)
    default_collate([x, x]).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_containers():
    assert default_collate([("a", b"b"), ("c", b"d")]) == [("a", "c"), (b"b", b"d")]
    made = default_collate([{"a": 1, "b": [2.0, "x"]}, {"a": 3, "b": [4.0, "y"]}])
    assert made["a"].tolist() == [1, 3] and made["b"][0].tolist() == [2.0, 4.0] and made["b"][1] == ("x", "y")
    point = default_collate([Point(1, "a"), Point(2, "b")])
    assert type(point) is Point and point.x.tolist() == [1, 2] and point.y == ("a", "b")
    assert type(default_collate([Named(a=1)])) is Named and type(default_collate([Row([1])])) is Row
    assert type(default_collate([collections.OrderedDict(a=1)])) is collections.OrderedDict
    counted = default_collate([collections.defaultdict(int, a=1)])
    assert counted.default_factory is int and counted["a"].tolist() == [1]
    assert default_collate([(), ()]) == []


@pytest.mark.parametrize(
    "error,batch",
    [
        (TypeError, [object()]), (TypeError, [None]), (TypeError, [{1}]), (TypeError, [1j]), (TypeError, [np.array(["a"])]),
        (TypeError, [np.array([None], object)]), (RuntimeError, [[1], [1, 2]]), (KeyError, [{"a": 1}, {"b": 1}]),
        (RuntimeError, [torch.ones(2), torch.ones(3)]), (IndexError, []),
    ],
)  # fmt: skip
def test_what_cannot_be_collated(error, batch):
    with pytest.raises(error):
        default_collate(batch)


def test_own_functions_by_type():
    def joined(batch, *, collate_fn_map=None):
        return "+".join(map(str, batch))

    assert collate([1, 2], collate_fn_map={int: joined}) == "1+2"
    assert collate([(1, 2), (3, 4)], collate_fn_map={(int, float): joined}) == ["1+3", "2+4"]
    assert collate([True], collate_fn_map={int: joined}) == "True"


def test_convert():
    made = default_convert({"a": np.ones(1), "b": (1, "x"), "c": Point(np.float32(2), None)})
    assert made["a"].dtype is torch.float64 and made["b"] == [1, "x"] and made["c"].x.item() == 2.0
    strings = np.array(["a"])
    assert default_convert(strings) is strings
