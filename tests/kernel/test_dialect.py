"""Functions of words that are compiled: by their names where changes of their files are noticed, by their text elsewhere."""

import ctypes
import importlib.util

from flambeau._kernel.loops.dialect import compile_function


def _called(path, text):
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("some_words", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    address = compile_function("more", module.more, ["word"])
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(5)


def test_a_function_of_a_file_that_is_not_watched_is_known_by_its_text(tmp_path):
    text = "def more(m, word):\n    return word + 1\n"
    assert _called(tmp_path / "one.py", text) == 6
    assert _called(tmp_path / "two.py", text.replace("1", "2")) == 7
