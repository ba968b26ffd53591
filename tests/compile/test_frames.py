"""Which function a frame runs, read from the frame and looked for among all objects."""

import collections
import sys
import weakref

import pytest

from flambeau._compile import frames, guards


def _named(self=None):
    return frames.functions_of(sys._getframe())


class _Owner:
    def method(self):
        return frames.functions_of(sys._getframe())


def _one_by_one():
    yield frames.functions_of(sys._getframe())


def _inner(kept):
    def closure(given=kept):
        return kept, given, frames.functions_of(sys._getframe())

    return closure


@pytest.mark.parametrize("place", [frames._place, lambda: None], ids=["read", "looked for"])
def test_functions_of_frames(monkeypatch, place):
    monkeypatch.setattr(frames, "_place", place)
    nameless = lambda: frames.functions_of(sys._getframe())
    owner = _Owner()
    assert _named() == [_named] and nameless() == [nameless]
    assert owner.method() == [_Owner.method] and next(_one_by_one()) == [_one_by_one]


def test_of_functions_with_the_same_code_the_one_that_runs():
    if frames._place() is None:
        pytest.skip("this interpreter's frames are laid out in another way")
    first, second = _inner(1), _inner(2)
    assert first()[2] == [first] and second()[2] == [second]


def test_code_that_was_made_of_text():
    """As that of named tuples is: no module has it by its name."""
    found = []
    kind = collections.namedtuple("kind", "a b")

    def seen(frame, event, arg):
        if event == "call" and frame.f_code is kind.__new__.__code__:
            found.append(frames.functions_of(frame))

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        kind(1, 2)
    finally:
        sys.setprofile(before)
    assert found == [[kind.__new__]]


def test_what_weak_containers_do_when_an_object_dies_is_nothing_of_a_recorded_run():
    for kind in (weakref.WeakSet, weakref.WeakKeyDictionary, weakref.WeakValueDictionary):
        assert id(kind()._remove.__code__) in guards._HARMLESS
