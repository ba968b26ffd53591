"""What families say of their operations, where several threads import and ask."""

import sys
import types

from flambeau._ops.records import facts


def test_a_family_that_is_half_imported_is_read_later(monkeypatch):
    """Another thread is importing it: no further module will come to say that it is there."""
    name = f"{facts._FAMILIES}made_up"
    module = types.ModuleType(name)
    module.__spec__ = types.SimpleNamespace(_initializing=True)
    monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(facts, "_modules", [0])
    assert facts.fact("made_up_operation", "autocast") is None
    module.SCHEMAS = "made_up_operation  # autocast=lower"
    module.__spec__._initializing = False
    try:
        assert facts.fact("made_up_operation", "autocast") == "lower"
    finally:
        facts._known.pop("made_up_operation", None)
        facts._read.discard(name)


def test_what_is_being_read_is_known_to_all(monkeypatch):
    """A thread that asks while another reads gets the answer, too."""
    name = f"{facts._FAMILIES}made_up"
    module = types.ModuleType(name)
    module.SCHEMAS = "made_up_operation  # autocast=lower"
    monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(facts, "_modules", [0])
    real, answers = facts.facts_in, []

    def slow(read):
        if read is module and not answers:
            answers.append(None)
            answers.append(facts.fact("made_up_operation", "autocast"))
        return real(read)

    monkeypatch.setattr(facts, "facts_in", slow)
    try:
        assert facts.fact("made_up_operation", "autocast") == "lower"
        assert answers == [None, "lower"]
    finally:
        facts._known.pop("made_up_operation", None)
        facts._read.discard(name)
