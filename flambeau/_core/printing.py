"""How a tensor reads as text: the print options and the layout of `repr(tensor)`.

Works on numpy values only, so any device and tensor kind can use it with its values on the host.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import compress
from types import SimpleNamespace
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


_DEFAULT: dict[str, Any] = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}
_PROFILES = {
    "default": _DEFAULT,
    "short": {**_DEFAULT, "precision": 2, "edgeitems": 2},
    "full": {**_DEFAULT, "threshold": float("inf")},
}
PRINT_OPTIONS = SimpleNamespace(**_DEFAULT)  # what decides how tensors are printed; others may hold it

# Scientific notation starts where a column of fixed-point numbers stops being readable.
_LARGEST_FIXED = 1.0e8
_SMALLEST_FIXED = 1.0e-4
_WIDEST_RATIO = 1000.0


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Change how tensors are printed.

    `precision` is the number of digits after the point, `threshold` the number of elements above
    which a tensor is summarised, `edgeitems` how many of them are then shown at each end of a
    dimension, `linewidth` the column at which rows wrap. `profile` ("default", "short" or "full")
    sets all of them, before the others apply. `sci_mode` forces scientific notation on
    or off; every call that leaves it out returns it to automatic.
    """
    if profile is not None:
        vars(PRINT_OPTIONS).update(_PROFILES.get(profile, {}))
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    vars(PRINT_OPTIONS).update({name: value for name, value in given.items() if value is not None})
    PRINT_OPTIONS.sci_mode = sci_mode


def get_printoptions() -> dict[str, Any]:
    """The current print options by name."""
    return dict(vars(PRINT_OPTIONS))


@contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """Apply `set_printoptions(**options)` inside a `with` block and restore the old ones after."""
    saved = get_printoptions()
    try:
        set_printoptions(**options)
        yield
    finally:
        vars(PRINT_OPTIONS).update(saved)


def tensor_repr(
    array: Array | None,
    *,
    dtype_name: str,
    default_float: str = "float32",
    default_complex: str | None = None,
    prefix: str = "tensor(",
    device: str | None = None,
    requires_grad: bool = False,
    grad_fn: str | None = None,
    is_meta: bool = False,
    shape: Sequence[int] | None = None,
    extra: Sequence[str] = (),
    contents: str | None = None,
) -> str:
    """The text of a tensor holding the values of `array`.

    `device` is named only when given; `grad_fn` is the backward node's name and hides
    `requires_grad`. A meta tensor has no values: `array` is then ignored and `shape` told.
    `extra` holds further `name=value` suffixes. `contents` stand for the values, if given.
    """
    if array is not None and not is_meta:
        shape = array.shape
    if shape is None:
        raise ValueError("tensor_repr: a meta tensor has no values, so its shape must be given")
    size = tuple(map(int, shape))
    if default_complex is None:
        default_complex = "complex128" if default_float == "float64" else "complex64"
    # Without values to tell the dtype by, only the default one goes unsaid.
    silent_dtypes = {default_float}
    # Without edge items brackets may stand for anything, so the size is always told.
    show_size = PRINT_OPTIONS.edgeitems == 0
    if is_meta or (array is None and contents is None):
        body, show_size, device = contents or "...", True, device or "meta"
    elif 0 in size:
        body, show_size = contents or "[]", len(size) != 1
    else:
        silent_dtypes |= {default_complex, "int64", "bool"}
        body = _array_text(array, len(prefix)) if contents is None else contents  # type: ignore[arg-type]

    suffixes = []
    if device is not None:
        suffixes.append(f"device='{device}'")
    if show_size:
        suffixes.append(f"size={size}")
    if dtype_name not in silent_dtypes:
        suffixes.append(f"dtype=torch.{dtype_name}")
    if grad_fn is not None:
        suffixes.append(f"grad_fn=<{grad_fn}>")
    elif requires_grad:
        suffixes.append("requires_grad=True")
    return _with_suffixes(prefix + body, [*suffixes, *extra], len(prefix))


def _with_suffixes(text: str, suffixes: Sequence[str], indent: int) -> str:
    """Append the suffixes and the closing bracket, wrapping to `indent` where a line is full."""
    # Two columns are kept free, for the bracket and for the comma that a next suffix brings.
    used = len(text) - (text.rfind("\n") + 1) + 2
    parts = [text]
    for suffix in suffixes:
        if used + len(suffix) + 2 > PRINT_OPTIONS.linewidth:
            parts.append(",\n" + " " * indent + suffix)
            used = indent + len(suffix)
        else:
            parts.append(", " + suffix)
            used += len(suffix) + 2
    return "".join(parts) + ")"


def _array_text(array: Array, indent: int) -> str:
    """The bracketed values of a non-empty array, whose first line starts at column `indent`."""
    summarise = array.size > PRINT_OPTIONS.threshold
    if summarise and array.ndim and PRINT_OPTIONS.edgeitems == 0:
        return "[...]"
    elided = [summarise and length > 2 * PRINT_OPTIONS.edgeitems for length in array.shape]
    if any(elided):
        array = _edges(array, elided)
    texts, width = _element_texts(array)
    return _nest(texts, array.shape, elided, width, indent)


def _edges(array: Array, elided: Sequence[bool]) -> Array:
    """The part of the array that is shown, read without touching the rest."""
    edge = PRINT_OPTIONS.edgeitems
    kept = [
        np.r_[:edge, length - edge : length] if cut else np.arange(length)
        for length, cut in zip(array.shape, elided, strict=True)
    ]
    return array[np.ix_(*kept)]


def _nest(texts: Sequence[str], shape: Sequence[int], elided: Sequence[bool], width: int, indent: int) -> str:
    """Lay out element texts, given in row-major order, as nested bracketed lists."""
    if not shape:
        return texts[0]
    middle = shape[0] // 2
    if len(shape) == 1:
        items = list(texts)
        if elided[0]:
            items.insert(middle, " ...")
        per_line = max(1, (PRINT_OPTIONS.linewidth - indent) // (width + 2))
        lines = [", ".join(items[start : start + per_line]) for start in range(0, len(items), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    stride = len(texts) // shape[0]
    items = [
        _nest(texts[start : start + stride], shape[1:], elided[1:], width, indent + 1)
        for start in range(0, len(texts), stride)
    ]
    if elided[0]:
        items.insert(middle, "...")
    return "[" + ("," + "\n" * (len(shape) - 1) + " " * (indent + 1)).join(items) + "]"


def _element_texts(array: Array) -> tuple[list[str], int]:
    """Each element's text in row-major order, padded to a column, and that column's width."""
    if array.dtype.kind in "biu":
        texts = list(map(str, array.ravel().tolist()))
        return _pad(texts, max(map(len, texts)))
    if array.dtype.kind != "c":
        return _pad(*_float_texts(array))
    real, real_width = _pad(*_float_texts(array.real))
    imaginary, imaginary_width = _float_texts(array.imag)
    signed = (text if text[0] == "-" else "+" + text for text in imaginary)
    texts = [left + right + "j" for left, right in zip(real, signed, strict=True)]
    return texts, real_width + imaginary_width + 1


def _pad(texts: list[str], width: int) -> tuple[list[str], int]:
    return [text.rjust(width) for text in texts], width


def _float_texts(array: Array) -> tuple[list[str], int]:
    """Unpadded texts of real values in one common notation, and the width of their column.

    Only finite non-zero values choose notation and width; a wider "-inf" just sticks out.
    """
    values = array.ravel().astype(np.float64)
    finite = np.isfinite(values)
    deciding = finite & (values != 0)
    pattern, whole = _notation(np.abs(values[deciding]))
    texts = list(map(pattern.__mod__, values.tolist()))
    if whole:
        texts = [text + "." if has_point else text for text, has_point in zip(texts, finite.tolist(), strict=True)]
    return texts, max(map(len, compress(texts, deciding.tolist())), default=1)


def _notation(magnitudes: Array) -> tuple[str, bool]:
    """The `%` pattern for these values, and whether they print as whole numbers ("3.")."""
    if magnitudes.size == 0:
        return "%.0f", True
    smallest, largest = float(magnitudes.min()), float(magnitudes.max())
    whole = bool((magnitudes == np.ceil(magnitudes)).all())
    scientific = PRINT_OPTIONS.sci_mode
    if scientific is None:
        scientific = (
            largest / smallest > _WIDEST_RATIO or largest > _LARGEST_FIXED or (not whole and smallest < _SMALLEST_FIXED)
        )
    if scientific:
        return f"%.{PRINT_OPTIONS.precision}e", False
    if whole:
        return "%.0f", True
    return f"%.{PRINT_OPTIONS.precision}f", False
