"""The tests of programs share `program_reference`, `user_programs` and `changes`."""

import sys
from pathlib import Path

import pytest

from flambeau._compile import words

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(params=["by words and versions", "by words alone", "by the interpreter"])
def compared(request, monkeypatch):
    """How guards are compared: other interpreters have no versions of dictionaries, or are not known at all."""
    if request.param == "by words alone":
        monkeypatch.setattr(words, "_VERSIONED", False)
    elif request.param == "by the interpreter":
        monkeypatch.setattr(words, "known", lambda: False)
