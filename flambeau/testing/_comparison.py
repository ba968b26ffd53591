"""`assert_close`: two results that should be equal up to rounding, and where they are not."""

from __future__ import annotations

import cmath
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._core import dtypes as d
from .._core.layouts import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr, strided
from .._ops.registry import ops
from .._tensor import Tensor

__all__ = ["assert_allclose", "assert_close", "default_tolerances"]

# dtype -> (relative, absolute); integers and bools must be equal
_TOLERANCES = {
    d.float16: (1e-3, 1e-5),
    d.bfloat16: (1.6e-2, 1e-5),
    d.float32: (1.3e-6, 1e-5),
    d.float64: (1e-7, 1e-7),
    d.complex64: (1.3e-6, 1e-5),
    d.complex128: (1e-7, 1e-7),
}
_NUMBERS = {int: d.int64, float: d.float64, complex: d.complex128}
_COMPRESSED = {
    sparse_csr: ("CSR", "crow_indices", "col_indices"),
    sparse_bsr: ("BSR", "crow_indices", "col_indices"),
    sparse_csc: ("CSC", "ccol_indices", "row_indices"),
    sparse_bsc: ("BSC", "ccol_indices", "row_indices"),
}


class _Mismatch(Exception):
    """Two values differ; `place` says where inside of containers."""

    def __init__(self, message: str, place: tuple[Any, ...], kind: type[Exception] = AssertionError):
        super().__init__(message)
        self.message, self.place, self.kind = message, place, kind

    def error(self, msg: str | Callable[[str], str] | None = None) -> Exception:
        """What the user sees; `msg` replaces the text of a difference, or makes one from it."""
        text = self.message
        if self.place:
            text += "\n\nThe failure occurred for item " + "".join(f"[{part!r}]" for part in self.place)
        if self.kind is AssertionError and msg is not None:
            text = msg(text) if callable(msg) else msg
        return self.kind(text)


class _Options(NamedTuple):
    rtol: float | None
    atol: float | None
    equal_nan: bool
    check_device: bool
    check_dtype: bool
    check_layout: bool
    check_stride: bool
    allow_subclasses: bool

    def tolerances(self, *kinds: Any) -> tuple[float, float]:
        return get_tolerances(*kinds, rtol=self.rtol, atol=self.atol)


def default_tolerances(
    *inputs: Tensor | d.dtype, dtype_precisions: dict[d.dtype, tuple[float, float]] | None = None
) -> tuple[float, float]:
    """The tolerances (relative, absolute) for tensors or dtypes: the widest of each.

    >>> import flambeau as torch
    >>> torch.testing._comparison.default_tolerances(torch.float32, torch.float16)
    (0.001, 1e-05)
    """
    table = dtype_precisions or _TOLERANCES
    found = [table.get(_kind(i), (0.0, 0.0)) for i in inputs]
    return max(f[0] for f in found), max(f[1] for f in found)


def _kind(x: Any) -> d.dtype:
    if isinstance(x, Tensor):
        return x.dtype
    if isinstance(x, d.dtype):
        return x
    raise TypeError(f"Expected a torch.Tensor or a torch.dtype, but got {type(x)} instead.")


def get_tolerances(
    *inputs: Tensor | d.dtype, rtol: float | None, atol: float | None, id: tuple[Any, ...] = ()
) -> tuple[float, float]:
    """The tolerances that are given, or those of the dtypes; `id` is a place inside of containers, for the message.

    >>> import flambeau as torch
    >>> torch.testing._comparison.get_tolerances(torch.float64, rtol=None, atol=None)
    (1e-07, 1e-07)
    """
    if (rtol is None) != (atol is None):
        missing = "rtol" if rtol is None else "atol"
        text = f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}."
        raise _Mismatch(text, id, ValueError).error()
    return default_tolerances(*inputs) if rtol is None or atol is None else (rtol, atol)


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """AssertionError unless |actual - expected| <= atol + rtol * |expected| everywhere, also inside of lists and dicts.

    Without tolerances the dtype decides. `msg` replaces the message, or makes one from it.

    >>> import flambeau as torch
    >>> torch.testing.assert_close(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0000001]))
    >>> torch.testing.assert_close({"a": [1.0]}, {"a": [2.0]})
    Traceback (most recent call last):
    AssertionError: Scalars are not close!
    <BLANKLINE>
    Expected 2.0 but got 1.0.
    Absolute difference: 1.0 (up to 1e-07 allowed)
    Relative difference: 0.5 (up to 1e-07 allowed)
    <BLANKLINE>
    The failure occurred for item ['a'][0]
    """
    get_tolerances(d.int64, rtol=rtol, atol=atol)  # both of them or none
    options = _Options(rtol, atol, equal_nan, check_device, check_dtype, check_layout, check_stride, allow_subclasses)
    try:
        _compare(actual, expected, (), options)
    except _Mismatch as found:
        raise found.error(msg) from None


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """The older form of `assert_close`, which does not look at dtypes and devices."""
    warnings.warn("`assert_allclose` is old: use `assert_close` instead", FutureWarning, stacklevel=2)
    actual, expected = (a if isinstance(a, Tensor) else ops.as_tensor(a) for a in (actual, expected))
    if rtol is None and atol is None:
        rtol, atol = default_tolerances(actual, expected)
    assert_close(
        actual,
        expected,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_device=True,
        check_dtype=False,
        msg=msg or None,
    )


# -- containers ------------------------------------------------------------------------------------------------------


def _compare(actual: Any, expected: Any, place: tuple[Any, ...], options: _Options) -> None:
    if actual is None or expected is None:
        if actual is not expected:
            raise _Mismatch(f"None mismatch: {_shown(actual)} is not {_shown(expected)}", place)
    elif _is_bool(actual) and _is_bool(expected):
        if bool(actual) is not bool(expected):
            raise _Mismatch(f"Booleans mismatch: {actual} is not {expected}", place)
    elif _is_number(actual) and _is_number(expected):
        _numbers(actual, expected, place, options)
    elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
        _mappings(actual, expected, place, options)
    elif _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            raise _Mismatch(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", place)
        for i, (a, b) in enumerate(zip(actual, expected)):
            _compare(a, b, (*place, i), options)
    elif _comparable(actual, expected, options):
        tensors = [t if isinstance(t, Tensor) else ops.as_tensor(t) for t in (actual, expected)]
        _tensors(*[t.detach() for t in tensors], place, options)
    else:
        raise _Mismatch(
            f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}.",
            place,
            TypeError,
        )


def _shown(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) and value.numel() == 1 else value


def _is_bool(x: Any) -> bool:
    return isinstance(x, (bool, np.bool_))


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float, complex, np.number)) and not isinstance(x, (bool, np.bool_))


def _is_sequence(x: Any) -> bool:
    return isinstance(x, Sequence) and not isinstance(x, (str, bytes))


def _comparable(actual: Any, expected: Any, options: _Options) -> bool:
    first, second = type(actual), type(expected)
    if not (issubclass(first, (Tensor, np.ndarray)) and issubclass(second, (Tensor, np.ndarray))):
        return False
    if first is second:
        return True
    return options.allow_subclasses and (issubclass(first, second) or issubclass(second, first))


def _mappings(actual: Any, expected: Any, place: tuple[Any, ...], options: _Options) -> None:
    missing, more = set(expected) - set(actual), set(actual) - set(expected)
    if missing or more:
        raise _Mismatch(
            "The keys of the mappings do not match:\n"
            f"Missing keys in the actual mapping: {_ordered(missing)}\n"
            f"Additional keys in the actual mapping: {_ordered(more)}",
            place,
        )
    for key in _ordered(expected):
        _compare(actual[key], expected[key], (*place, key), options)


def _ordered(keys: Any) -> list[Any]:
    try:
        return sorted(keys)
    except TypeError:
        return list(keys)


# -- numbers ---------------------------------------------------------------------------------------------------------


def _plain(x: Any) -> Any:
    return x.item() if isinstance(x, np.generic) else x


def _numbers(actual: Any, expected: Any, place: tuple[Any, ...], options: _Options) -> None:
    actual, expected = _plain(actual), _plain(expected)
    if options.check_dtype and type(actual) is not type(expected):
        raise _Mismatch(f"The (d)types do not match: {type(actual)} != {type(expected)}.", place)
    rtol, atol = options.tolerances(_NUMBERS[type(actual)], _NUMBERS[type(expected)])
    _scalars(actual, expected, rtol, atol, options.equal_nan, place)


def _scalars(actual: Any, expected: Any, rtol: float, atol: float, equal_nan: bool, place: tuple[Any, ...]) -> None:
    if actual == expected or (equal_nan and _is_nan(actual) and _is_nan(expected)):
        return
    absolute = abs(actual - expected)
    if cmath.isfinite(absolute) and absolute <= atol + rtol * abs(expected):
        return
    relative = float("inf") if expected == 0 else absolute / abs(expected)
    equal = rtol == 0 and atol == 0
    raise _Mismatch(
        f"Scalars are not {'equal' if equal else 'close'}!\n\nExpected {expected} but got {actual}.\n"
        f"Absolute difference: {absolute}{_allowed(atol, equal)}\n"
        f"Relative difference: {relative}{_allowed(rtol, equal)}",
        place,
    )


def _is_nan(x: Any) -> bool:
    return bool(x != x)


def _allowed(tolerance: float, equal: bool) -> str:
    return "" if equal else f" (up to {tolerance} allowed)"


# -- tensors ---------------------------------------------------------------------------------------------------------


def _tensors(actual: Tensor, expected: Tensor, place: tuple[Any, ...], options: _Options) -> None:
    def differ(name: str, first: Any, second: Any) -> None:
        raise _Mismatch(f"The values for attribute '{name}' do not match: {first} != {second}.", place)

    if actual.shape != expected.shape:
        differ("shape", actual.shape, expected.shape)
    if options.check_layout and actual.layout != expected.layout:
        differ("layout", actual.layout, expected.layout)
    if actual.layout == strided == expected.layout and options.check_stride and actual.stride() != expected.stride():
        differ("stride()", actual.stride(), expected.stride())
    if options.check_device and actual.device != expected.device:
        differ("device", actual.device, expected.device)
    if actual.is_quantized != expected.is_quantized:
        differ("is_quantized", actual.is_quantized, expected.is_quantized)
    if actual.is_quantized and actual.qscheme() != expected.qscheme():
        differ("qscheme()", actual.qscheme(), expected.qscheme())
    if options.check_dtype and actual.dtype != expected.dtype:
        differ("dtype", actual.dtype, expected.dtype)
    if actual.is_meta or expected.is_meta:  # which have no elements to compare
        return
    rtol, atol = options.tolerances(actual, expected)
    actual, expected = _alike(actual, expected)
    if actual.layout == sparse_coo:
        _coo(actual, expected, rtol, atol, place, options)
    elif actual.layout in _COMPRESSED:
        _compressed(actual, expected, rtol, atol, place, options)
    else:
        _values(actual, expected, rtol, atol, "Tensor-likes", place, options)


def _alike(actual: Tensor, expected: Tensor) -> tuple[Tensor, Tensor]:
    """Both on one device, in one dtype and layout."""
    if actual.device != expected.device:
        actual, expected = actual.cpu(), expected.cpu()
    if actual.dtype != expected.dtype:
        common = d.promote_types(actual.dtype, expected.dtype)
        actual, expected = actual.to(common), expected.to(common)
    if actual.layout != expected.layout:
        actual = actual.to_dense() if actual.layout != strided else actual
        expected = expected.to_dense() if expected.layout != strided else expected
    return actual, expected


def _coo(actual: Tensor, expected: Tensor, rtol: float, atol: float, place: Any, options: _Options) -> None:
    if actual.sparse_dim() != expected.sparse_dim():
        raise _Mismatch(
            "The number of sparse dimensions in sparse COO tensors does not match: "
            f"{actual.sparse_dim()} != {expected.sparse_dim()}",
            place,
        )
    if actual._nnz() != expected._nnz():
        raise _Mismatch(
            f"The number of specified values in sparse COO tensors does not match: {actual._nnz()} != {expected._nnz()}",
            place,
        )
    actual, expected = actual.coalesce(), expected.coalesce()
    _values(actual.indices(), expected.indices(), 0, 0, "Sparse COO indices", place, options)
    _values(actual.values(), expected.values(), rtol, atol, "Sparse COO values", place, options)


def _compressed(actual: Tensor, expected: Tensor, rtol: float, atol: float, place: Any, options: _Options) -> None:
    name, compressed, plain = _COMPRESSED[actual.layout]
    first, second = actual.values(), expected.values()
    if first.shape != second.shape:
        raise _Mismatch(
            f"The number of specified values in sparse {name} tensors does not match: {actual._nnz()} != {expected._nnz()}",
            place,
        )
    for part in (compressed, plain):
        _values(getattr(actual, part)(), getattr(expected, part)(), 0, 0, f"Sparse {name} {part}", place, options)
    _values(first, second, rtol, atol, f"Sparse {name} values", place, options)


def _values(
    actual: Tensor, expected: Tensor, rtol: float, atol: float, what: str, place: Any, options: _Options
) -> None:
    """Compares elements of two strided tensors."""
    if actual.dtype.is_floating_point and actual.dtype.itemsize == 1:  # which nothing computes with
        actual, expected = ops.to_dtype(actual, d.float32), ops.to_dtype(expected, d.float32)
    close = ops.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=options.equal_nan)
    if bool(ops.all(close)):
        return
    if not actual.ndim:
        _scalars(actual.item(), expected.item(), rtol, atol, options.equal_nan, place)
    equal = rtol == 0 and atol == 0
    count, wrong = close.numel(), int((~close).sum())
    absolute, relative = _differences(actual, expected, close)
    lines = [
        f"{what} are not {'equal' if equal else 'close'}!\n",
        f"Mismatched elements: {wrong} / {count} ({wrong / count:.1%})",
    ]
    for kind, found, tolerance in (("absolute", absolute, atol), ("relative", relative, rtol)):
        flat = int(ops.argmax(found.flatten()))
        index = tuple(int(i) for i in np.unravel_index(flat, tuple(found.shape)))
        lines.append(
            f"Greatest {kind} difference: {found.flatten()[flat].item()} at index {index}{_allowed(tolerance, equal)}"
        )
    raise _Mismatch("\n".join(lines), place)


def _differences(actual: Tensor, expected: Tensor, close: Tensor) -> tuple[Tensor, Tensor]:
    if not actual.dtype.is_floating_point and not actual.dtype.is_complex:
        actual, expected = actual.to(d.int64), expected.to(d.int64)
    elif actual.dtype.itemsize == 1:
        actual, expected = actual.to(d.float32), expected.to(d.float32)
    absolute = ops.abs(actual - expected)
    relative = absolute / ops.abs(expected)
    return absolute.masked_fill(close, 0), relative.masked_fill(close, 0)
