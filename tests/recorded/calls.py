"""Calls whose outcome was recorded on PyTorch, and how an outcome is written down.

A line of a file beside this one is a call, as in `samples.py`, a tab and its outcome as JSON: dtype, sizes, strides and a
fingerprint of each result, the name of its node, and fingerprints of the first and second derivatives by every operand.
`tools/record.py`, run where PyTorch is installed, writes the outcomes of calls that have none yet.
"""

from __future__ import annotations

import functools
import json
import math
import re
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

HERE = Path(__file__).parent
# By dtype: how far fingerprints may differ, as a share of the sum of sizes.
CLOSE = {"float64": 1e-7, "complex128": 1e-7, "float32": 1e-4, "complex64": 1e-4, "bfloat16": 2e-2, "float16": 4e-3}
_TOGETHER = 16  # calls that one test checks
_SHORT = re.compile(r"\b(h|hb|hm|f|bfloat16|float16)\b")  # what a call with few digits names
# What a call of other dtypes than float32, int64 and bool names.
_UNUSUAL = re.compile(
    r"\b(h|hb|hm|f|z|zq|zb|d|dq|dlong|dwide|dedge|k32|bytes8|half|double|b?float(16|64)|u?int(8|16|32)|complex\w*)\b"
)


def operands(torch: Any, call: str) -> dict[str, Any]:
    """The tensors that a call uses; the floating ones require gradients."""

    used = set(re.findall(r"\w+", call))
    return {name: make() for name, make in _makers(torch).items() if name in used}


def _random(name: str, kind: str, shape: tuple[int, ...], low: float = 0, high: float = 0) -> Any:
    """Numbers that belong to a name."""
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    if kind == "whole":
        return generator.integers(low, high, shape)
    if kind == "real":
        return generator.uniform(low, high, shape)
    return generator.normal(size=shape) + 1j * generator.normal(size=shape)


@functools.cache
def _makers(torch: Any) -> dict[str, Callable[[], Any]]:
    """What makes the operands, by their names."""

    def real(name: str, *shape: int, dtype: Any = torch.float32, low: float = -2.0, high: float = 2.0) -> Any:
        numbers = _random(name, "real", shape, low, high)
        return lambda: torch.from_numpy(numbers.copy()).to(dtype).requires_grad_()

    def whole(name: str, *shape: int, low: int = 0, high: int = 9, dtype: Any = torch.int64) -> Any:
        numbers = _random(name, "whole", shape, low, high)
        return lambda: torch.from_numpy(numbers.copy()).to(dtype)

    def complexes(name: str, *shape: int) -> Any:
        numbers = _random(name, "complex", shape)
        return lambda: torch.from_numpy(numbers.copy()).to(torch.complex64).requires_grad_()

    def given(*args: Any, **named: Any) -> Any:
        return lambda: torch.tensor(*args, **named)

    shapes = {
        "x": (3, 4), "y": (3, 4), "m": (4, 5), "n": (5, 4), "q": (4, 4), "v": (4,), "w": (4,), "s": (), "b": (2, 3, 4),
        "c": (2, 4, 5), "u": (2, 3, 4, 5), "e": (1, 4), "o": (0, 4), "r": (3, 4, 2), "im": (2, 4, 7, 6), "vol": (1, 2, 5, 4, 6),
        "seq": (2, 3, 9), "wide": (40, 700), "tall": (700, 40), "long": (30000,), "big": (300, 400), "bq": (2, 4, 4),
        "at": (2, 2, 6, 8), "grid": (2, 3, 5, 2), "grid3": (1, 2, 3, 2, 3),
    }  # fmt: skip
    return {
        **{name: real(name, *shape) for name, shape in shapes.items()},
        "p": real("p", 3, 4, low=0.1), "unit": real("unit", 3, 4, low=0.05, high=0.95),
        "d": real("d", 3, 4, dtype=torch.float64), "dq": real("dq", 4, 4, dtype=torch.float64),
        "dlong": real("dlong", 3000, dtype=torch.float64), "dwide": real("dwide", 30, 90, dtype=torch.float64),
        "h": real("h", 3, 4, dtype=torch.bfloat16), "hm": real("hm", 4, 5, dtype=torch.bfloat16),
        "hb": real("hb", 2, 3, 4, 5, dtype=torch.bfloat16), "f": real("f", 3, 4, dtype=torch.float16),
        "z": complexes("z", 3, 4), "zq": complexes("zq", 4, 4), "zb": complexes("zb", 2, 4, 4),
        "k": whole("k", 3, 4, low=-5), "l": whole("l", 3, 4, high=4), "g": whole("g", 3, 4, high=3), "i": whole("i", 5, high=3),
        "j": whole("j", 5, high=4), "t": whole("t", 6, high=3), "ix": whole("ix", 2, 4, high=3), "c3": whole("c3", 3, high=4),
        "k32": whole("k32", 3, 4, low=-5, dtype=torch.int32), "bytes8": whole("bytes8", 3, 4, high=200, dtype=torch.uint8),
        "klong": whole("klong", 20000, low=-50, high=50), "mask": whole("mask", 3, 4, high=2, dtype=torch.bool),
        "mwide": whole("mwide", 40, 700, high=2, dtype=torch.bool), "iwide": whole("iwide", 40, 700, high=40),
        "ilong": whole("ilong", 3000, high=40), "row": given([True, False, True]),
        "twice": given([[1.0, 2.0, 2.0, 1.0, 3.0, 3.0, 3.0], [3.0, 2.0, 1.0, 1.0, 0.0, 2.0, 5.0]], requires_grad=True),
        "ties": given([[1.0, 2.0, -1.0], [0.0, 2.0, 3.0]], requires_grad=True),
        "tied": given([[1.0, -2.0, -1.0], [0.0, 2.0, 4.0]], requires_grad=True),
        "order": given([[0.5, 1.0, 1.5], [0.2, 0.4, 0.9]]),
        "edge": given([0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -3.0, 30.0, -30.0, 1e-30, 1e30, -1e30, math.inf, -math.inf, math.nan]),
        "dedge": given(
            [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -2.5, 12.0, 170.5, 800.0, -800.0, 1e-300, 1e300, math.inf, -math.inf, math.nan],
            dtype=torch.float64,
        ),
        "holes": given([[1.0, math.nan, 3.0, -2.0], [math.nan, 0.5, 0.25, 4.0], [7.0, 1.0, math.nan, 2.0]], requires_grad=True),
    }  # fmt: skip


@functools.lru_cache(256)
def weights(shape: tuple[int, ...], shift: int = 0) -> Any:
    count = math.prod(shape)
    return np.cos(np.arange(1 + shift, count + 1 + shift) * 0.7).reshape(tuple(shape))


def print_of(torch: Any, t: Any) -> Any:
    """A few numbers that change with any element: kinds of what is not finite, and two weighted sums."""
    if t.layout is not torch.strided:
        t = t.to_dense()
    if t.is_quantized:
        t = t.dequantize()
    t = t.detach().resolve_conj().resolve_neg()
    if t.dtype.is_complex:
        t = torch.view_as_real(t.to(torch.complex128))
    array = t.to(torch.float64).numpy() if t.dtype.is_floating_point else t.numpy()
    if array.dtype.kind in "iub":
        return int((array.reshape(-1).astype(object) * (np.arange(array.size) % 97 + 1)).sum())
    finite = np.isfinite(array)
    odd = [int(np.isnan(array).sum()), int((array == np.inf).sum()), int((array == -np.inf).sum())]
    array = np.where(finite, array, 0.0)
    first = float((array * weights(array.shape)).sum())
    return [*odd, float(f"{first:.9g}"), float(f"{np.abs(array).sum():.9g}")]


def describe(torch: Any, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        node = type(value.grad_fn).__name__ if value.grad_fn is not None else None
        strides = None
        if value.layout is torch.strided and value.numel():
            strides = [stride for size, stride in zip(value.shape, value.stride()) if size > 1]
        made = {
            "of": str(value.dtype)[6:],
            "is": list(value.shape),
            "by": strides,
            "node": node,
            "value": print_of(torch, value),
        }
        return {key: found for key, found in made.items() if found is not None}
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return [describe(torch, part) for part in value]
    if isinstance(value, (bool, int, str, type(None))):
        return value
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value
    if isinstance(value, complex):
        return [value.real, value.imag]
    if isinstance(value, torch.Size):
        return list(value)
    return type(value).__name__


def _leaves(torch: Any, value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        if value.requires_grad:
            yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _leaves(torch, part)


def _loss(torch: Any, found: list[Any], shift: int) -> Any:
    total = 0.0
    for t in found:
        t = t.to_dense() if t.layout is not torch.strided else t
        t = torch.view_as_real(t.resolve_conj()) if t.dtype.is_complex else t
        factors = torch.from_numpy(weights(t.shape, shift))
        total = total + (torch.nan_to_num(t.to(torch.float64), 0.0, 0.0, 0.0) * factors).sum()
    return total


def outcome(torch: Any, call: str, told: bool = True) -> dict[str, Any]:
    """What a call gives: results and derivatives, or the kind of error. Unless it is to be told it is only computed."""
    known = operands(torch, call)
    scope = {"torch": torch, "F": torch.nn.functional, "nn": torch.nn, "dev": "cpu", "filled": lambda module: _filled(torch, module),
             "ones": torch.ones, "inf": math.inf, "nan": math.nan, **known}  # fmt: skip
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if ";" in call:
                exec(call, scope)
                value = scope["out"]
            else:
                value = eval(call, scope)
        except Exception as error:
            return {"error": type(error).__name__.lstrip("_")}
        made: dict[str, Any] = {"result": describe(torch, value) if told else None}
        differentiable = [t for t in _leaves(torch, value) if t.grad_fn is not None]
        if not differentiable:
            return made
        by = {n: t for n, t in known.items() if t.requires_grad}
        first, second = derivatives(torch, differentiable, by, told)
        made.update({"first": first} if first else {}, **({"second": second} if second else {}))
    return made


def derivatives(torch: Any, results: list[Any], by: dict[str, Any], told: bool) -> Any:
    """Fingerprints of the gradients of a weighted sum of results, and of those of a weighted sum of these."""
    used = [t for t in by.values()]
    try:
        first = torch.autograd.grad(_loss(torch, results, 3), used, create_graph=True, allow_unused=True)
    except Exception:
        return None, None
    shown = {n: [str(g.dtype)[6:], print_of(torch, g)] for n, g in zip(by, first) if told and g is not None}
    again = [g for g in first if g is not None and g.requires_grad]
    if not again:
        return shown, None
    try:
        second = torch.autograd.grad(_loss(torch, again, 11), used, allow_unused=True)
    except Exception:
        return shown, None
    found = {n: [str(g.dtype)[6:], print_of(torch, g)] for n, g in zip(by, second) if told and g is not None}
    return shown, {n: row for n, row in found.items() if sum(row[1][:3]) or row[1][4] > 1e-5} or None


def _filled(torch: Any, module: Any) -> Any:
    """A module whose parameters have values that do not depend on a generator."""
    with torch.no_grad():
        for shift, p in enumerate(module.parameters()):
            p.copy_(torch.from_numpy(weights(p.shape, shift) * 0.5))
    return module


def recorded(name: str) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """The calls of a file with what PyTorch gave."""
    for line in (HERE / f"{name}.txt").read_text().splitlines():
        call, _, text = line.partition("\t")
        if call and not call.startswith("#"):
            yield call, json.loads(text) if text else None


def parameters(*names: str) -> list[Any]:
    """For `pytest.mark.parametrize`: the calls of some files, by their places."""
    return [pytest.param(*row, id=f"{name}-{n}") for name in names for n, row in enumerate(recorded(name))]


def in_groups(found: list[Any]) -> list[Any]:
    """The same, some at a time: one of pytest's items takes longer than most calls. Calls of unusual dtypes are slow tests."""
    unusual = [bool(_UNUSUAL.search(" ".join([v for v in p.values if isinstance(v, str)]))) for p in found]
    made = []
    for kind, marks in ((False, ()), (True, pytest.mark.slow)):
        chosen = [p for p, one in zip(found, unusual) if one is kind]
        parts = [chosen[i : i + _TOGETHER] for i in range(0, len(chosen), _TOGETHER)]
        made += [
            pytest.param([p.values for p in part], id=f"{part[0].id}..{part[-1].id}", marks=marks) for part in parts
        ]
    return made


def check_each(check: Callable[..., None], torch: Any, rows: list[Any]) -> None:
    """Checks several calls and tells of all that fail."""
    failed = []
    for row in rows:
        try:
            check(torch, *row)
        except Exception as error:
            failed.append((row, error))
    if failed:
        told = "\n".join([f"{row[0]} {row[1]}: {error}"[:2000] for row, error in failed])
        raise AssertionError(f"{len(failed)} of {len(rows)}:\n{told}") from failed[0][1]


def check_again(torch: Any, call: str, expected: Any) -> None:
    """The third call goes by the plan that the others have made."""
    check(torch, call, expected)
    outcome(torch, call, told=False)
    check(torch, call, expected)


def check(torch: Any, call: str, expected: Any) -> None:
    found = list(differences(call, expected, outcome(torch, call)))
    assert not found, f"{call}: {'; '.join(found)}"


def differences(call: str, expected: Any, found: Any) -> Iterator[str]:
    """What is not as it was recorded."""
    short = "bfloat16" if _SHORT.search(call) else ""
    yield from _differences(expected, json.loads(json.dumps(found)), "", short)


def _differences(expected: Any, found: Any, where: str, short: str) -> Iterator[str]:
    """What PyTorch could not differentiate, or what it does in another way (names of nodes, strides), is not compared."""
    if isinstance(expected, dict) and isinstance(found, dict):
        if "of" in expected and expected["of"] == found.get("of"):
            if not close(expected["value"], found["value"], short or expected["of"]):
                yield f"{where}value: {found['value']} instead of {expected['value']}"
            expected, found = {**expected, "value": 0}, {**found, "value": 0}
        for key in {**expected, **found}:
            if key in expected or key not in ("node", "by", "first", "second"):
                yield from _differences(expected.get(key), found.get(key), f"{where}{key} ", short)
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        if len(expected) == 2 and isinstance(expected[0], str) and expected[0] == found[0]:
            if not close(expected[1], found[1], short or expected[0]):
                yield f"{where}: {found[1]} instead of {expected[1]}"
            return
        for n, (a, b) in enumerate(zip(expected, found)):
            yield from _differences(a, b, f"{where}[{n}] ", short)
    elif isinstance(expected, float) and isinstance(found, float):
        if not math.isclose(expected, found, rel_tol=1e-4, abs_tol=1e-5):
            yield f"{where}: {found} instead of {expected}"
    elif expected != found:
        yield f"{where}: {found} instead of {expected}"


def close(expected: Any, found: Any, dtype: str) -> bool:
    if not isinstance(expected, list) or not isinstance(found, list):
        return expected == found
    share = CLOSE.get(dtype, 0.0) * max(expected[4], 0.1)
    return expected[:3] == found[:3] and all(abs(a - b) <= share for a, b in zip(expected[3:], found[3:]))
