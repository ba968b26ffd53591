"""Functions of words that are compiled: by their names where changes of their files are noticed, by their text elsewhere."""

import ctypes
import importlib.util

from flambeau._kernel.building import jit, llvm
from flambeau._kernel.loops.dialect import compile_function, inline, render_function


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


@inline
def _first_divisor(m, n):
    """The smallest divisor from 2 on and how often it divides, both 0 if there is none below 8."""
    if n < 2:
        return 0, 0
    for d in range(2, 8):
        left, times = n, 0
        while left % d == 0:
            left = left // d
            times += 1
            if times == 3:
                return d, 3
        if times != 0:
            return d, times
    return 0, 0


def _divided(m, n):
    divisor, times = _first_divisor(m, n)
    if divisor == 0:
        return 0 - 1
    again, _ = _first_divisor(m, divisor + 1)
    return divisor * 100 + times * 10 + again


def test_an_inlined_function_may_return_anywhere():
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(compile_function("divided", _divided, ["n"]))
    assert [call(n) for n in (1, 121, 2, 16, 9, 35, 7)] == [-1, -1, 213, 233, 322, 512, 712]


def test_loops_over_words_are_compiled_as_they_are_written():
    """They go round once or twice: copies of them, and passes that look for more, would only take the compiler longer."""

    def change(m, words, count):
        for i in range(count):
            m.put(words, i * 8, m.word(words, i * 8) * 3 + i)

    text = render_function("change", change, ["words", "count"])
    assert llvm.AS_WRITTEN in text
    machine = llvm._machine(jit.target())
    made = [
        str(llvm.improved(jit.target(), t, llvm.loaded().get_global_context(), machine))
        for t in (text, text.replace(llvm.AS_WRITTEN, ""))
    ]
    assert made[0].count("store ") == 1 and made[0].count("\n") < made[1].count("\n")
