"""Arguments that differ from those of the first call. Guards tell those that matter from those that do not."""

import collections
import dataclasses
import itertools

import pytest
from changes import Block, guards_of, x

import flambeau as torch
from flambeau import nn

Pair = collections.namedtuple("Pair", "left right")


@dataclasses.dataclass
class Batch:
    inputs: torch.Tensor
    name: str = "a"


class Tagged(torch.Tensor):
    pass


def first(*args, **kwargs):
    return getattr(args[0], "name", None)


def tagged(value):
    t = x()
    t.tag = value
    return t


SHARED = torch.ones(2, 4)
LONG = torch.ones(40)
OTHER_ARGUMENTS = {
    "shape": ((x(),), (torch.ones(3, 4),)),
    "rank": ((x(),), (torch.ones(2, 4, 1),)),
    "dtype": ((x(),), (x().double(),)),
    "strides": ((x(),), (torch.ones(4, 2).t(),)),
    "expanded": ((x(),), (torch.ones(1, 4).expand(2, 4),)),
    "requires_grad": ((x(),), (x().requires_grad_(),)),
    "device": ((x(),), (x().to("meta"),)),
    "class": ((x(),), (x().as_subclass(Tagged),)),
    "parameter": ((x().requires_grad_(),), (nn.Parameter(x()),)),
    "layout": ((x(),), (x().to_sparse(),)),
    "conjugate": ((x().cfloat(),), (x().cfloat().conj(),)),
    "aliased": ((x(), x()), (SHARED, SHARED)),
    "no_longer_aliased": ((SHARED, SHARED), (x(), x())),
    "overlapping_views": ((x(), x()), (LONG[:8].view(2, 4), LONG[4:12].view(2, 4))),
    "views_that_overlapped": ((LONG[:8].view(2, 4), LONG[4:12].view(2, 4)), (x(), x())),
    "views_that_overlap_otherwise": ((LONG[:8], LONG[4:12]), (LONG[:8], LONG[2:10])),
    "attribute_of_a_tensor": ((tagged(1),), (tagged(2),)),
    "number_of_arguments": ((x(),), (x(), 1)),
    "none": ((x(), None), (x(), x())),
    "number": ((x(), 2), (x(), 3)),
    "bool_for_a_number": ((x(), 1), (x(), True)),
    "float_for_an_integer": ((x(), 1), (x(), 1.0)),
    "negative_zero": ((x(), 0.0), (x(), -0.0)),
    "text": ((x(), "a"), (x(), "b")),
    "length_of_a_list": (([x()],), ([x(), x()],)),
    "tuple_for_a_list": (([x()],), ((x(),),)),
    "tensor_in_a_list": (([x(), x()],), ([x(), torch.ones(3)],)),
    "keys_of_a_dictionary": (({"a": x()},), ({"b": x()},)),
    "order_of_a_dictionary": (({"a": 1, "b": 2},), ({"b": 2, "a": 1},)),
    "tensor_in_a_dictionary": (({"a": [x()]},), ({"a": [x().double()]},)),
    "named_tuple": ((Pair(x(), 1),), (Pair(x(), 2),)),
    "tuple_for_a_named_tuple": ((Pair(x(), 1),), ((x(), 1),)),
    "field_of_a_data_class": ((Batch(x()),), (Batch(x(), "b"),)),
    "tensor_of_a_data_class": ((Batch(x()),), (Batch(x().double()),)),
    "dtype_as_an_argument": ((x(), torch.float32), (x(), torch.float64)),
    "slice": ((x(), slice(0, 2)), (x(), slice(0, 3))),
    "another_object": ((Block(),), (Block(),)),
}


@pytest.mark.parametrize("name", OTHER_ARGUMENTS)
def test_other_arguments_are_seen(name):
    args, others = OTHER_ARGUMENTS[name]
    guards = guards_of(first, *args)
    assert guards.check(args, {})
    assert not guards.check(others, {})
    assert guards.reason(others, {})


def test_leaves_are_told_from_results_where_code_asks():
    leaf, result = x().requires_grad_(), x().requires_grad_() * 1
    assert guards_of(lambda h: h * 2, leaf).check((result,), {})
    guards = guards_of(lambda h: h * 2 if h.is_leaf else h, leaf)
    assert guards.check((leaf,), {}) and not guards.check((result,), {})
    assert guards.reason((result,), {}) == "h.is_leaf == True"


def test_views_that_do_not_overlap_are_as_good_as_others():
    guards = guards_of(first, x(), x())
    assert guards.check((LONG[:8].view(2, 4), LONG[8:16].view(2, 4)), {})


def test_an_argument_in_the_memory_of_a_parameter():
    weight = torch.ones(2, 4)
    f = lambda h: h * weight
    guards = guards_of(f, x())
    assert guards.check((x(),), {})
    assert not guards.check((weight,), {}) and not guards.check((weight[:],), {})
    assert guards.reason((weight,), {}) == "which arguments lie in the same memory"
    guards = guards_of(f, weight)
    assert guards.check((weight,), {}) and not guards.check((x(),), {})


def test_named_arguments_are_not_positional_ones():
    guards = guards_of(first, x(), scale=2)
    assert guards.check((x(),), {"scale": 2})
    for args, kwargs in (((x(), 2), {}), ((x(),), {"scale": 3}), ((x(),), {"other": 2}), ((x(),), {})):
        assert not guards.check(args, kwargs)
        assert guards.reason(args, kwargs)


def test_other_tensors_that_look_the_same_pass():
    assert guards_of(first, x(), [x(), {"a": x()}], Batch(x()), Pair(1, x())).check(
        (torch.zeros(2, 4), [x(), {"a": torch.zeros(2, 4)}], Batch(x()), Pair(1, x())), {}
    )


def _sum(values):
    total = torch.zeros(2)
    for v in values:
        total = total + v * 2
    return total


ITERATORS = {
    "generator": lambda k: (torch.full((2,), float(i + k)) for i in range(3)),
    "list": lambda k: iter([torch.full((2,), float(k)), torch.ones(2)]),
    "map": lambda k: map(lambda i: torch.full((2,), float(i)), range(k)),
    "numbers": lambda k: iter(range(k, 5)),
    "islice": lambda k: itertools.islice([torch.full((2,), float(i + k)) for i in range(4)], 2),
}


@pytest.mark.parametrize("name", ITERATORS)
def test_iterators_are_used_up_as_eagerly(name):
    compiled = torch.compile(_sum)
    for k in range(4):
        given = ITERATORS[name](k)
        assert torch.equal(compiled(given), _sum(ITERATORS[name](k)))
        assert next(given, None) is None


def test_an_iterator_goes_on_from_call_to_call():
    compiled, it = torch.compile(lambda it, x: x * next(it)), iter(range(10))
    assert [compiled(it, torch.ones(1)).item() for _ in range(4)] == [0.0, 1.0, 2.0, 3.0] and next(it) == 4


@dataclasses.dataclass
class Nest:
    parts: list
    mask: torch.Tensor | None = None

    @property
    def total(self):
        return sum(part.inputs for part in self.parts)


def _changes_a_field(nest):
    nest.mask = nest.total > 0
    return nest.total * 2


OF_RECORDS = {
    "field": lambda n: n.parts[0].inputs * 2,
    "property": lambda n: n.total + 1,
    "none": lambda n: n.total if n.mask is None else n.total * n.mask,
    "written": lambda n: n.parts[1].inputs.mul_(2) + n.parts[0].inputs,
    "name": lambda n: n.total * len(n.parts[0].name),
    "returned": lambda n: n.parts[1].inputs,
    "object": lambda n: n,
    "remade": lambda n: dataclasses.replace(n, mask=n.total),
    "field that is changed": _changes_a_field,
}


@pytest.mark.parametrize("history", [False, True])
@pytest.mark.parametrize("name", OF_RECORDS)
def test_tensors_in_data_classes_are_those_of_each_call(name, history):
    """Also where two fields are one tensor, sizes change, or a mask comes and goes."""
    compiled = torch.compile(OF_RECORDS[name])

    def nest(i):
        torch.manual_seed(i)
        scale = torch.ones((), requires_grad=history)
        a, b = (torch.randn(3 if i != 4 else 5) * scale for _ in range(2))
        return Nest([Batch(a), Batch(a if i == 3 else b, "a" * (1 + (i == 2)))], None if i < 5 else a > 0), scale

    def seen(function, i):
        given, scale = nest(i)
        out = function(given)
        if isinstance(out, Nest):
            assert (out is given) == (name == "object")
            out = out.total
        if history:
            out.sum().backward()
        return [t.detach() for t in (out, given.total, given.parts[1].inputs, *([scale.grad] if history else ()))]

    for i in (0, 1, 1, 2, 3, 4, 5, 0):
        for got, wanted in zip(seen(compiled, i), seen(OF_RECORDS[name], i)):
            assert torch.equal(got, wanted)


def test_programs_take_tensors_in_data_classes():
    compiled = torch.compile(lambda batch: batch.inputs * 2, fullgraph=True)
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    for i in range(4):
        assert compiled(Batch(torch.full((2,), float(i)))).tolist() == [2.0 * i] * 2
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == before + 1


def _views(whole):
    return whole[:1], whole, whole[0]


_WRITES = {
    "scale": lambda v: v.mul_(2),
    "chain": lambda v: v.mul_(2).add_(1).sin_(),
    "zero": lambda v: v.zero_(),
    "item": lambda v: v.__setitem__(0, 5.0),
    "unsqueeze": lambda v: v.unsqueeze_(0),
    "turn": lambda v: v.t_().mul_(3),
    "data": lambda v: setattr(v, "data", v.data * 2),
}


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("write", _WRITES)
def test_arguments_with_a_history_that_share_memory_are_written_to(write, which):
    """The first call, which is recorded, writes to stand-ins of arguments: bases and views learn of it."""

    def function(v):
        _WRITES[write](v)
        return (v * v).sum()

    def run(f):
        found = []
        for _ in range(3):
            start = torch.arange(1.0, 5.0).view(2, 2).requires_grad_()
            whole = start * 1
            given = _views(whole)[which]
            (f(given) + whole.sum()).backward()
            found.append((start.grad.tolist(), whole.tolist(), given.tolist(), given.shape))
        return found

    assert run(torch.compile(function)) == run(function)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_view_and_its_base_are_arguments(order):
    def function(written, read):
        written.mul_(2)
        return (read * read).sum()

    def run(f):
        start = torch.arange(1.0, 5.0).view(2, 2).requires_grad_()
        whole = start * 1
        both = whole[0], whole
        f(*[both[i] for i in order]).backward()
        return start.grad.tolist()

    compiled = torch.compile(function)
    assert [run(compiled) for _ in range(3)] == [run(function)] * 3


def test_an_argument_begins_to_require_gradients():
    def function(x):
        x.requires_grad_()
        return (x * 3).sum()

    compiled = torch.compile(function)
    for _ in range(3):
        x = torch.ones(2)
        compiled(x).backward()
        assert x.grad.tolist() == [3, 3]


def test_an_argument_ceases_to_require_gradients():
    def function(x):
        y = x * 2
        x.requires_grad_(False)
        return y

    compiled = torch.compile(function)
    for _ in range(3):
        x = torch.ones(2, requires_grad=True)
        compiled(x).sum().backward()
        assert x.grad.tolist() == [2, 2] and not x.requires_grad


def test_an_argument_is_detached_in_place():
    compiled = torch.compile(lambda x: (x.detach_() * 3).sum())
    for _ in range(3):
        x = torch.ones(2, requires_grad=True) * 2
        assert compiled(x) == 12 and not x.requires_grad and x.is_leaf


@pytest.mark.parametrize("function", [lambda x: x.detach_() * 3, lambda x: x.mul_(3).detach_()])
def test_views_are_not_detached_in_place(function):
    compiled = torch.compile(function)
    for _ in range(3):
        x = (torch.ones(2, requires_grad=True) * 2)[:1]
        with pytest.raises(RuntimeError, match="Can't detach views in-place"):
            compiled(x)
        assert x.requires_grad

    for _ in range(3):  # what has a view is not one
        x = torch.ones(2, requires_grad=True) * 2
        part = x[:1]
        assert torch.compile(function)(x).tolist() == [6, 6] and not x.requires_grad and part.requires_grad
