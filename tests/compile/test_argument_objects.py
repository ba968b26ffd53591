"""Objects that are arguments: those of a class of which there is another in each call are known by what they hold."""

import gc
import weakref

import pytest
from argument_objects import (
    WAYS,
    Cache,
    Fixed,
    State,
    Stepping,
    adds,
    as_hash,
    as_text,
    counts,
    decodes,
    seen,
    shape_of,
)

import flambeau as torch
from flambeau._dynamo.utils import counters


@pytest.mark.slow
@pytest.mark.parametrize("name", WAYS)
def test_programs_are_right_however_objects_change(name):
    function, makers = WAYS[name]
    compiled = torch.compile(function)
    calls = [makers[0]] * 3 + [make for make in makers for _ in range(3)] + [*makers, *makers]
    for i, make in enumerate(calls):
        assert seen(compiled, make, i) == seen(function, make, i), (i, counters["graph_break"])


@pytest.mark.parametrize("function", [as_hash, as_text])
def test_what_depends_on_who_an_object_is(function):
    compiled = torch.compile(function)
    for i in range(6):
        state, x = State(i), torch.ones(3)
        assert shape_of(compiled(state, x), {}) == shape_of(function(state, x), {})


def recordings(function, make, monkeypatch, calls=8):
    """How many programs are made for so many calls, all of which are programs."""
    compiled, before = torch.compile(function, fullgraph=True), counters["stats"]["unique_graphs"]
    for i in range(calls):
        if i == calls - 2:  # all is known by then
            monkeypatch.setattr("flambeau.compiler._region.Region._not_known", None)
        assert seen(compiled, make, i) == seen(function, make, i)
    return counters["stats"]["unique_graphs"] - before


FEW = ["read", "rebound", "appended", "counted", "numbers", "written in place", "swapped", "table", "new attributes", "objects inside that the run makes", "unread",
       "slots and attributes", "object in a data class", "object in a tuple", "cache that grows", "cache that counts", "data class", "frozen data class", "gradients", "dictionary with attributes", "deleted", "made to require grad", "cycle", "history"]  # fmt: skip


@pytest.mark.parametrize("name", FEW)
def test_programs_are_those_of_the_class(name, monkeypatch):
    function, makers = WAYS[name]
    assert 0 < recordings(function, makers[0], monkeypatch) <= 4


def test_programs_keep_no_arguments():
    compiled, kept = torch.compile(decodes, fullgraph=True), []
    for _ in range(4):
        cache = Cache(kind=Fixed)
        compiled(cache, torch.ones(1, 3))
        kept += [weakref.ref(one) for one in (cache, cache.layers[0], cache.layers[0].keys)]
    del cache
    gc.collect()
    assert not any(one() is not None for one in kept)


@pytest.mark.parametrize("function", [counts, adds])
def test_counts_are_no_sizes(function, monkeypatch):
    """Objects of two sizes, whose numbers are others in each call."""
    compiled, make = (
        torch.compile(function, fullgraph=True),
        lambda i: State(i, seen=i, total=0.0, a=torch.ones(3, 3)[: 1 + i % 2]),
    )
    for i in range(20):
        if i == 12:
            monkeypatch.setattr("flambeau.compiler._forms.Forms.eagerly", None)
        assert seen(compiled, make, i) == seen(function, make, i)


def test_a_function_that_is_returned_knows_its_own_run():
    def around(x):
        y = x * 2
        return lambda: y + 1

    compiled = torch.compile(around)
    assert [compiled(torch.full((1,), float(i)))().item() for i in range(4)] == [1.0, 3.0, 5.0, 7.0]


def test_an_object_that_is_also_that_of_the_method():
    def outs(wrap):
        state, others = Stepping(1), [State(i) for i in range(4)]
        step = wrap(state.step)
        given = (others[0], state, others[1], others[2], state, others[3], state)
        return [shape_of((step(other, torch.ones(3)), other, state), {}) for other in given]

    assert outs(torch.compile) == outs(lambda f: f)
