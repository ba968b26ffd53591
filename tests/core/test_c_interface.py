"""Functions of Python's C interface have prototypes that no other thread or library can change."""

import ctypes
from pathlib import Path

import pytest

import flambeau
from flambeau._core.c_interface import c_address, c_function, capsule_name, capsule_pointer


def test_a_prototype_is_not_changed_by_what_others_set(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = c_function("PyLong_FromLong", ctypes.py_object, ctypes.c_long)
    theirs = ctypes.pythonapi.PyLong_FromLong
    monkeypatch.setattr(theirs, "restype", ctypes.c_void_p)
    monkeypatch.setattr(theirs, "argtypes", [ctypes.py_object])
    assert ours(7) == 7
    assert c_function("PyLong_FromLong", ctypes.py_object, ctypes.c_long) is ours


def test_nothing_of_ours_is_set_on_the_shared_one() -> None:
    root = Path(flambeau.__file__).parent
    users = {str(path.relative_to(root)) for path in root.rglob("*.py") if "pythonapi" in path.read_text()}
    assert users == {"_core/c_interface.py"}


def test_capsules_and_addresses() -> None:
    word = ctypes.c_int64(5)
    new = c_function("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    name = b"a word"
    capsule = new(ctypes.addressof(word), name, None)
    assert capsule_name(capsule) == name
    assert capsule_pointer(capsule, name) == ctypes.addressof(word)
    assert c_address("PyObject_Vectorcall") != 0
    assert c_address("PyObject_NoSuchFunction") == 0
