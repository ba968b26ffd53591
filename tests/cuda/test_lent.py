"""Memory that several streams use."""

from types import SimpleNamespace

from flambeau._backend.cuda_lent import Lent


class Memory:
    """Of a tensor."""


def stream(address):
    marks = []

    def record():
        marks.append(SimpleNamespace(done=False))
        return marks[-1]

    return SimpleNamespace(ptr=address, record=record, marks=marks)


def test_memory_stays_until_the_streams_are_done():
    lent, one, other = Lent(), stream(1), stream(2)
    memory = Memory()
    lent(memory, one)
    lent(memory, other)
    lent(memory, one)
    lent.look()
    assert len(lent.used) == 1 and not one.marks
    del memory
    lent.look()
    assert not lent.used and len(lent.leaving) == 1 and len(one.marks) == len(other.marks) == 1
    one.marks[0].done = True
    lent.look()
    assert lent.leaving
    other.marks[0].done = True
    lent.look()
    assert not lent.leaving
