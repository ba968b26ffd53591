"""A test case that compares tensors, tests with parameters, and what else tests need: files, seeds, reasons to skip."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import random
import socket
import sys
import tempfile
import unittest
import warnings
from collections.abc import Iterator, Mapping, Sequence, Set
from importlib.util import find_spec
from typing import Any

import numpy as np

from ... import autograd, cuda
from ... import random as _random
from ..._core.dtypes import dtype, get_default_dtype
from ..._core.dtypes import set_default_dtype as _set_default
from ..._ops.registry import ops
from ..._tensor import Tensor
from .._comparison import assert_close
from .._creation import make_tensor
from ._parameters import instantiate_parametrized_tests, parametrize, subtest

__all__ = [
    "FILE_SCHEMA", "IS_ARM64", "IS_CI", "IS_FBCODE", "IS_LINUX", "IS_MACOS", "IS_SANDCASTLE", "IS_WINDOWS", "IS_X86", "SEED",
    "TEST_CUDA", "TEST_MPS", "TEST_NUMPY", "TEST_SCIPY", "TEST_WITH_ASAN", "TEST_WITH_CROSSREF", "TEST_WITH_ROCM", "TEST_WITH_SLOW",
    "TEST_WITH_TORCHDYNAMO", "TEST_WITH_TORCHINDUCTOR", "TEST_XPU", "TemporaryDirectoryName", "TemporaryFileName", "TestCase",
    "find_free_port", "freeze_rng_state", "gradcheck", "gradgradcheck", "instantiate_parametrized_tests", "make_tensor",
    "noncontiguous_like", "parametrize", "run_tests", "set_default_dtype", "set_rng_seed", "skipIfCrossRef", "skipIfNoLapack",
    "skipIfRocm", "skipIfTorchDynamo", "skipIfWindows", "skipIfXpu", "slowTest", "subtest", "suppress_warnings",
]  # fmt: skip

IS_LINUX, IS_MACOS, IS_WINDOWS = (sys.platform.startswith(name) for name in ("linux", "darwin", "win"))
IS_ARM64, IS_X86 = platform.machine() in ("arm64", "aarch64"), platform.machine() in ("x86_64", "AMD64", "i386")
IS_CI = bool(os.environ.get("CI"))
IS_FBCODE = IS_SANDCASTLE = TEST_WITH_ASAN = TEST_WITH_ROCM = TEST_WITH_CROSSREF = False
TEST_WITH_TORCHDYNAMO = TEST_WITH_TORCHINDUCTOR = TEST_XPU = TEST_MPS = False
TEST_WITH_SLOW = os.environ.get("PYTORCH_TEST_WITH_SLOW", "0") == "1"
TEST_NUMPY, TEST_SCIPY, TEST_CUDA = True, find_spec("scipy") is not None, cuda.is_available()
FILE_SCHEMA = "file:///" if IS_WINDOWS else "file://"
SEED = 1234


def set_rng_seed(seed: int | None = None) -> None:
    """Seeds all sources of random numbers, by `SEED` if nothing else is said."""
    seed = SEED if seed is None else seed
    _random.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


@contextlib.contextmanager
def freeze_rng_state() -> Iterator[None]:
    """A block after which random numbers go on as if it had drawn none."""
    with _random.fork_rng():
        yield


@contextlib.contextmanager
def set_default_dtype(d: dtype) -> Iterator[None]:
    """A block with another default dtype."""
    before = get_default_dtype()
    _set_default(d)
    try:
        yield
    finally:
        _set_default(before)


@contextlib.contextmanager
def TemporaryFileName(*args: Any, **kwargs: Any) -> Iterator[str]:
    """The name of a file that is there for a block."""
    with tempfile.NamedTemporaryFile(*args, **{**kwargs, "delete": False}) as made:
        made.close()
        try:
            yield made.name
        finally:
            os.unlink(made.name)


@contextlib.contextmanager
def TemporaryDirectoryName(suffix: str | None = None) -> Iterator[str]:
    """The name of a folder that is there for a block."""
    with tempfile.TemporaryDirectory(suffix=suffix) as made:
        yield made


def find_free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as made:
        made.bind(("localhost", 0))
        return int(made.getsockname()[1])


def noncontiguous_like(t: Tensor) -> Tensor:
    """A copy with gaps between its elements, which records if `t` does; `t` itself if that has some."""
    if not t.is_contiguous():
        return t
    gaps = ops.full(
        (*t.shape, 2), float("nan") if t.is_floating_point() or t.is_complex() else 0, dtype=t.dtype, device=t.device
    )
    made = gaps[..., 0]
    made.copy_(t.detach())
    return made.requires_grad_(t.requires_grad)


def gradcheck(fn: Any, inputs: Any, **kwargs: Any) -> bool:
    """`autograd.gradcheck` as tests call it: along random directions, and for batches."""
    return autograd.gradcheck(fn, inputs, **{"check_batched_grad": True, "fast_mode": True, **kwargs})


def gradgradcheck(fn: Any, inputs: Any, grad_outputs: Any = None, **kwargs: Any) -> bool:
    """The same of second derivatives."""
    return autograd.gradgradcheck(fn, inputs, grad_outputs, **{"check_batched_grad": True, "fast_mode": True, **kwargs})


# -- which tests run -------------------------------------------------------------------------------------------------------


def _skipping(condition: bool, reason: str) -> Any:
    """A decorator of tests and of classes of tests, with or without a message."""

    def decorate(func: Any = None, *, msg: str = reason) -> Any:
        if isinstance(func, str):  # the message alone
            func, msg = None, func
        skip = unittest.skipIf(condition, msg)
        return skip if func is None else skip(func)

    return decorate


skipIfRocm = _skipping(TEST_WITH_ROCM, "test doesn't currently work on the ROCm stack")
skipIfWindows = _skipping(IS_WINDOWS, "test doesn't currently work on the Windows stack")
skipIfXpu = _skipping(TEST_XPU, "test doesn't currently work on the XPU stack")
skipIfCrossRef = _skipping(TEST_WITH_CROSSREF, "test doesn't currently with crossref")
skipIfTorchDynamo = _skipping(TEST_WITH_TORCHDYNAMO, "test doesn't currently work with dynamo")
skipIfNoLapack = _skipping(False, "PyTorch compiled without Lapack")
slowTest = _skipping(not TEST_WITH_SLOW, "test is slow; run with PYTORCH_TEST_WITH_SLOW to enable test")


def suppress_warnings(fn: Any) -> Any:
    """A test during which nobody is warned."""

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return fn(*args, **kwargs)

    return call


def run_tests(argv: list[str] | None = None) -> None:
    """Runs the tests of the program, as `unittest.main` does."""
    unittest.main(module="__main__", argv=sys.argv if argv is None else argv)


# -- comparison ------------------------------------------------------------------------------------------------------------


class TestCase(unittest.TestCase):
    """A test case whose `assertEqual` takes tensors and what contains them; each test begins with the same seed.

    >>> import flambeau as torch
    >>> from flambeau.testing._internal.common_utils import TestCase
    >>> TestCase().assertEqual({"a": torch.ones(2)}, {"a": [1.0, 1.0]})
    """

    maxDiff = None
    precision = rel_tol = 0.0  # tolerances that all comparisons have at least

    def __init__(self, methodName: str = "runTest") -> None:
        super().__init__(methodName)

    def setUp(self) -> None:
        set_rng_seed()

    def assertEqual(
        self, x: Any, y: Any, msg: Any = None, *, atol: float | None = None, rtol: float | None = None, equal_nan: bool = True,
        exact_dtype: bool = True, exact_device: bool = False, exact_layout: bool = False, exact_stride: bool = False,
        exact_is_coalesced: bool = False,
    ) -> None:  # fmt: skip
        """Whether two tensors, numbers, texts, sets or containers of them agree; tensors do if they are close."""
        if (atol is None) != (rtol is None):
            missing = "atol" if atol is None else "rtol"
            raise ValueError(f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}.")
        options = {
            "equal_nan": equal_nan, "check_dtype": exact_dtype, "check_device": exact_device, "check_layout": exact_layout,
            "check_stride": exact_stride,
        }  # fmt: skip
        if atol is not None and rtol is not None:
            options |= {"atol": max(atol, self.precision), "rtol": max(rtol, self.rel_tol)}
        try:
            self._compare(x, y, options, "")
        except AssertionError as error:
            said = str(error)
            raise self.failureException(msg(said) if callable(msg) else f"{said}\n{msg}" if msg else said) from None

    def _compare(self, x: Any, y: Any, options: dict[str, Any], place: str) -> None:
        either = (x, y)
        if any([isinstance(v, (Tensor, np.ndarray)) for v in either]):
            if None in [v if v is None else 0 for v in either] or any([isinstance(v, (str, Mapping)) for v in either]):
                raise AssertionError(_at(f"Object comparison failed: {x!r} != {y!r}", place))
            self._compare_tensors(x, y, options, place)
        elif x is None or y is None:
            if x is not y:
                raise AssertionError(_at(f"None mismatch: {x} is not {y}", place))
        elif isinstance(x, (bool, np.bool_)) and isinstance(y, (bool, np.bool_)):
            if x != y:
                raise AssertionError(_at(f"Booleans mismatch: {x} is not {y}", place))
        elif all([isinstance(v, (bool, int, float, complex, np.number)) for v in either]):
            x, y = (int(v) if isinstance(v, (bool, np.bool_)) else v for v in either)
            assert_close(x, y, **{**options, "check_dtype": False}, msg=lambda said: _at(said, place))
        elif isinstance(x, Mapping) and isinstance(y, Mapping):
            missing, more = [k for k in y if k not in x], [k for k in x if k not in y]
            if missing or more:
                said = f"Missing keys in the actual mapping: {missing}\nAdditional keys in the actual mapping: {more}"
                raise AssertionError(_at(f"The keys of the mappings do not match:\n{said}", place))
            for key in x:
                self._compare(x[key], y[key], options, f"{place}[{key!r}]")
        elif all([isinstance(v, Sequence) and not isinstance(v, (str, bytes)) for v in either]):
            if len(x) != len(y):
                raise AssertionError(_at(f"The length of the sequences mismatch: {len(x)} != {len(y)}", place))
            for i, (a, b) in enumerate(zip(x, y)):
                self._compare(a, b, options, f"{place}[{i}]")
        elif isinstance(x, str) and isinstance(y, str):
            self._compare_plainly("String", x, y, place)
        elif isinstance(x, Set) and isinstance(y, Set):
            self._compare_plainly("Set", x, y, place)
        elif x != y:
            raise AssertionError(_at(f"Object comparison failed: {x!r} != {y!r}", place))

    def _compare_plainly(self, what: str, x: Any, y: Any, place: str) -> None:
        try:
            super().assertEqual(x, y)
        except AssertionError as error:
            raise AssertionError(_at(f"{what} comparison failed: {error}", place)) from None

    def _compare_tensors(self, x: Any, y: Any, options: dict[str, Any], place: str) -> None:
        given = [v for v in (x, y) if isinstance(v, (Tensor, np.ndarray))]
        if len(given) < 2:  # a number or a list: its dtype is nobody's
            options = {**options, "check_dtype": False}
        a, b = (v if isinstance(v, Tensor) else ops.as_tensor(v) for v in (x, y))
        assert_close(a, b, **options, msg=lambda said: _at(said, place))

    def assertNotEqual(self, x: Any, y: Any, msg: Any = None, **options: Any) -> None:  # type: ignore[override]
        """The opposite of `assertEqual`."""
        with self.assertRaises(AssertionError, msg=msg):
            self.assertEqual(x, y, msg, **options)

    def assertEqualIgnoreType(self, *args: Any, **options: Any) -> None:
        """`assertEqual`, whatever the dtypes are."""
        self.assertEqual(*args, exact_dtype=False, **options)

    def assertExpectedInline(self, actual: Any, expect: str, skip: int = 0) -> None:
        """Whether a text is the one that the test has written down."""
        self.assertMultiLineEqual(expect, str(actual))

    def assertEqualBroadcasting(self, x: Any, y: Any, *args: Any, **options: Any) -> None:
        """`assertEqual` of a tensor and what is expanded to its shape."""
        self.assertEqual(x, ops.expand(ops.as_tensor(y, dtype=x.dtype), x.shape), *args, **options)


def _at(said: str, place: str) -> str:
    return f"{said}\n\nThe failure occurred for item {place}" if place else said
