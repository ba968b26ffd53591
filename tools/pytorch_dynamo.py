"""Stand-ins with which PyTorch's tests of `torch.compile` look at results alone.

Counts of graphs and operations are equal to any number, graphs in texts and refusals are not compared, and the backends that
count stand for the programs that users get.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
import unittest
from collections.abc import Callable
from typing import Any


class Count(int):
    """A number of graphs or operations: PyTorch's is as good as flambeau's."""

    def _agrees(self, other: Any) -> bool:
        return True

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _agrees
    __hash__ = int.__hash__
    __add__ = __radd__ = __iadd__ = __sub__ = lambda self, other: self


class _Graphs(list[Any]):
    """Graphs that nobody has."""

    def __getitem__(self, place: Any) -> Any:
        raise unittest.SkipTest("looks at a graph")


class Counting(str):
    """A backend that counts, by the name of one that does nothing."""

    frame_count = op_count = Count()

    def __new__(cls, *given: Any, **named: Any) -> Counting:
        made = super().__new__(cls, "eager")
        made.graphs = _Graphs()  # type: ignore[attr-defined]
        return made

    def clear(self) -> None: ...

    def __call__(self, graph: Any, examples: Any) -> Any:
        return graph.forward


class _Lenient:
    """A block that may be refused, as PyTorch does, or not."""

    exception: Any = Exception("what PyTorch would say")

    def __enter__(self) -> _Lenient:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        self.exception = error or self.exception
        return error is not None and isinstance(error, Exception)


def _is_refusal(kinds: Any) -> bool:
    kinds = kinds if isinstance(kinds, tuple) else (kinds,)
    return any("_dynamo" in str(getattr(kind, "__module__", "")) for kind in kinds)


def _counts() -> bool:
    """Whether the line of the test that asks is about counts."""
    frame = sys._getframe(2)
    lines, start = inspect.getsourcelines(frame.f_code)
    where = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    first, last = (where[0] or start) - start, (where[1] or start) - start
    text = "".join(lines[first : last + 1]) if frame.f_code.co_name != "<module>" else ""
    return any(word in text for word in ("counter", "frame_count", "op_count", "graphs", "gm", "cnt"))


def _standard_test(case: Any, fn: Callable[..., Any], nargs: int, *counts: Any, **more: Any) -> None:
    import torch

    groups = [[torch.randn(10, 10) for _ in range(nargs)] for _ in range(2)]
    wanted = [fn(*group) for group in groups]
    compiled = torch.compile(fn, fullgraph=True)
    for _ in range(3):
        for group, result in zip(groups, wanted):
            case.assertTrue(torch._dynamo.utils.same(compiled(*group), result))


def install() -> None:
    """Puts them in the places where the tests look, of whichever framework is `torch`; after the helpers can be imported."""
    import torch
    import torch._dynamo.testing as testing
    from torch.testing._internal.common_utils import TestCase as Base

    class TestCase(Base):  # type: ignore[misc, valid-type]
        @classmethod
        def setUpClass(cls) -> None:
            super().setUpClass()
            cls._exit_stack = contextlib.ExitStack()
            cls.addClassCleanup(cls._exit_stack.close)

        def setUp(self) -> None:
            super().setUp()
            torch._dynamo.reset()
            torch._dynamo.utils.counters.clear()
            self._grad = torch.is_grad_enabled()

        def tearDown(self) -> None:
            torch._dynamo.reset()
            torch.set_grad_enabled(self._grad)
            super().tearDown()

        def assertEqual(self, x: Any, y: Any, *args: Any, **named: Any) -> None:
            if not isinstance(x, Count) and not isinstance(y, Count) and not _counts():
                super().assertEqual(x, y, *args, **named)

        def assertExpectedInline(self, *args: Any, **named: Any) -> None: ...

        def assertRaises(self, kinds: Any, *args: Any, **named: Any) -> Any:
            return self._refusal(super().assertRaises, kinds, args, named)

        def assertRaisesRegex(self, kinds: Any, text: Any, *args: Any, **named: Any) -> Any:
            return self._refusal(lambda k, *a, **n: Base.assertRaisesRegex(self, k, text, *a, **n), kinds, args, named)

        def _refusal(self, check: Callable[..., Any], kinds: Any, args: Any, named: Any) -> Any:
            if not _is_refusal(kinds):
                return check(kinds, *args, **named)
            if args and callable(args[0]):
                with contextlib.suppress(Exception):
                    args[0](*args[1:], **named)
                return None
            return _Lenient()

    for name in ("torch._dynamo.test_case", "torch._inductor.test_case"):
        module = importlib.import_module(name)
        module.TestCase = TestCase  # type: ignore[attr-defined]
        module.TestCaseWithNestedGraphBreaks = type("Nested", (TestCase,), {})  # type: ignore[attr-defined]
        module.run_tests = unittest.main  # type: ignore[attr-defined]
    counting = (
        "CompileCounter CompileCounterWithBackend EagerAndRecordGraphs AotEagerAndRecordGraphs InductorAndRecordGraphs"
    )
    for name in counting.split():
        setattr(testing, name, Counting)
    testing.standard_test = _standard_test
    same = {
        "expectedFailureDynamic": 0,
        "skipIfNotPy311": 1,
        "skipIfPy312": 1,
        "skipIfNotPy312": 0,
        "skipIfOnlyNotPy312": 1,
    }
    for name, runs in same.items():
        setattr(
            testing, name, (lambda test: test) if runs or "expected" in name else unittest.skip("for another Python")
        )
    testing.normalize_gm = testing.empty_line_normalizer = testing.remove_trailing_space = lambda text: text
    torch._dynamo.utils.ifdynstaticdefault = lambda count, other: count
    testing.unsupported = lambda *args: args
