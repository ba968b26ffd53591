"""What every operation supports, read off the records: the rows of the site's table (`tools/reference_pages.py` writes it).

    python tools/op_support.py tanh cumsum      # rows of some operations, as text
    python tools/op_support.py --dtypes         # writes docs/op_dtypes.txt again: what operations took when they were called

Pointwise records say which dtypes they take. The others take what their code does, so their samples (`tests/samples.py`) are called with
tensors of each kind of dtype, which takes minutes; the outcome is kept in a file.
"""

from __future__ import annotations

import contextlib
import functools
import re
import runpy
import sys
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from flambeau._kernel.native.site import Site  # noqa: E402
from flambeau._library import schema_texts as _schemas  # noqa: E402
from flambeau._ops.families import load_all  # noqa: E402
from flambeau._ops.records.pointwise_op import Pointwise, _Missing  # noqa: E402
from flambeau._ops.records.primitive import Primitive  # noqa: E402
from flambeau._ops.registry import functions, methods, ops, records  # noqa: E402
from flambeau.onnx import _export  # noqa: E402, F401  (which fills the table of operators)
from flambeau.onnx._table import row_of  # noqa: E402

CATEGORIES = ("bool", "integer", "floating", "complex")
DTYPES = ROOT / "docs" / "op_dtypes.txt"


class Support(NamedTuple):
    """One row. Texts are what the table shows."""

    path: str  # below the package; `Tensor.name` for what is a method only
    family: str  # the file of `_ops` that declares it
    kind: str
    dtypes: str
    derivative: str
    out: str
    in_place: str
    vmap: str
    meta: str
    cuda: str
    onnx: str
    autocast: str
    function: Any


def python_function(function: Any) -> Any:
    """What does the work of a public function, in Python."""
    while True:
        home = getattr(function, "__self__", None)
        if isinstance(home, Site):
            function = home.slow
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            return function


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _record(value: Any) -> Any:
    if isinstance(value, (Primitive, Pointwise)):
        return value
    return _by_call().get(id(value))


def _by_call(known: dict[int, Any] = {}) -> dict[int, Any]:  # noqa: B006
    if not known:
        known.update((id(op.call), op) for op in records.values())
    return known


def records_of(function: Any, depth: int = 3) -> list[Any]:
    """The records that a public function names in its own code, or, where it names none, in that of the functions it calls."""
    op = _record(function)
    if op is not None:
        return [op]
    inner = python_function(function)
    op = _record(inner)
    if op is not None:
        return [op]
    code = getattr(inner, "__code__", None)
    if code is None:
        return []
    space, found, further = getattr(inner, "__globals__", {}), {}, []
    for name in _names(code):
        value = space.get(name)
        if value is None:
            value = getattr(ops, name, None) if name in vars(ops) else None
        op = _record(value)
        if op is not None and not getattr(op, "derived", False):
            found[op.name] = op
        elif callable(value) and str(getattr(value, "__module__", "")).startswith("flambeau._ops"):
            further.append(value)
    if not found and depth:
        for value in further:
            found.update((op.name, op) for op in records_of(value, depth - 1))
    return list(found.values())


def _has_derivative(op: Any) -> bool | None:
    """None: it has none by its nature (comparisons, indices)."""
    if not op.differentiable:
        return False if getattr(op, "missing", False) else None
    grads = getattr(op, "grads", None)
    return not (grads and any(isinstance(g, _Missing) for g in grads))


def _united(answers: list[Any]) -> str:
    known = [a for a in answers if a is not None]
    if not known:
        return "–"
    return "yes" if all(known) else "in part" if any(known) else "no"


def _derivative(name: str, found: list[Any]) -> str:
    if name in _schemas.lines() and _schemas.makes_tensors(name):
        return "–"
    return _united([_has_derivative(op) for op in found]) if found else "by its parts"


def _dtypes(op: Any) -> str:
    taken = [CATEGORIES[c] for c in sorted(op.rule.takes)]
    text = "all" if len(taken) == 4 else ", ".join(taken)
    excluded = sorted(d.name for d in op.rule.excluded)
    return text + (f" without {', '.join(excluded)}" if excluded else "")


def sampled() -> set[str]:
    """Names in the expressions that `tools/gpu_check.py` runs on a GPU and compares with the CPU."""
    samples = runpy.run_path(str(ROOT / "tests" / "samples.py"))["SAMPLES"]
    return {name for lines in samples.values() for line in lines for name in re.findall(r"\w+", line)}


def tried() -> dict[str, set[str]]:
    """The kinds of dtypes that operations took in one of their samples, by name; those that no sample calls are missing."""
    from flambeau._kernel.building import jit

    jit.gather(None, str)  # compiles in a hurry
    import flambeau as torch

    given = runpy.run_path(str(ROOT / "tests" / "samples.py"))
    usual = given["operands"](torch)
    floats = {name for name, t in usual.items() if t.is_floating_point()}
    found: dict[str, set[str]] = {}
    for category, d in zip(CATEGORIES, (torch.bool, torch.int64, torch.float32, torch.complex64)):
        names = {n: (t.detach().abs() * 2).to(d) if n in floats else t for n, t in usual.items()}
        names |= {"torch": torch, "F": torch.nn.functional, "nn": torch.nn, "dev": "cpu"}
        names["ones"] = functools.partial(torch.ones, dtype=d)
        for line in (line for lines in given["SAMPLES"].values() for line in lines):
            if not floats & set(re.findall(r"\w+", line)):
                continue
            took = {category} if _runs(line, names) else set()
            for name in re.findall(r"(\w+)\(", line):
                found.setdefault(name, set()).update(took)
        for name, took in found.items():  # samples may have operands of other dtypes, `out=` for one
            if category not in took and any(_runs(f"torch.{name}({given})", names) for given in ("q", "q, q")):
                took.add(category)
    return found


def _runs(line: str, names: dict[str, Any]) -> bool:
    with contextlib.suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(line if ";" in line else f"out = {line}", dict(names))
        return True
    return False


def _kept() -> dict[str, str]:
    lines = DTYPES.read_text().splitlines() if DTYPES.exists() else []
    return {name: kinds for name, _, kinds in (line.partition(": ") for line in lines)}


def _autocast(name: str) -> str:
    return _schemas.facts().get(name, {}).get("autocast", "").replace("/", ", ").replace("whole", "") or "–"


def support() -> list[Support]:
    """All public operations, by path."""
    load_all()
    on_gpu, took = sampled(), _kept()
    public = {path: f for path, f in functions.items() if not path.endswith("_") and not path.startswith("_")}
    shown = {id(f) for f in public.values()}
    for name, f in methods.items():
        if not name.endswith("_") and not name.startswith("_") and id(f) not in shown and name not in public:
            public[f"Tensor.{name}"] = f
    rows = []
    for path, function in sorted(public.items(), key=lambda item: item[0].lower()):
        name = path.rpartition(".")[2]
        under = {name, path.replace(".", "_"), f"special_{name}" if "special." in path else name}
        found = records_of(function)
        one = found[0] if len(found) == 1 else None
        body = one is not None and isinstance(one, Pointwise)
        kind = (
            "body"
            if body
            else "view"
            if one is not None and one.view
            else "primitive"
            if one is not None
            else "composite"
        )
        inner = python_function(function)
        batched = [isinstance(op, Pointwise) or op.view or op.batch is not None for op in found]
        rows.append(
            Support(
                path,
                str(getattr(one.body if body else inner, "__module__", "")).removeprefix("flambeau._ops."),
                kind,
                _dtypes(one) if body else took.get(name, "–"),
                _derivative(name, found),
                "yes" if _schemas.takes_out(function) else "no",
                "yes" if f"{name}_" in methods or f"{path}_" in functions else "no",
                ("rule" if all(batched) else "rules and samples" if any(batched) else "by sample") if found else "by its parts",
                "yes" if all(isinstance(op, Pointwise) or op.view or op.meta is not None for op in found) else "no",
                "generated" if body else "checked" if name in on_gpu else "–",
                "yes" if any(row_of(n) is not None for n in under) else "no",
                _autocast(name),
                function,
            )
        )  # fmt: skip
    return rows


def main() -> None:
    wanted = set(sys.argv[1:])
    if "--dtypes" in wanted:
        lines = [
            f"{name}: {'all' if len(took) == 4 else ', '.join(sorted(took, key=CATEGORIES.index))}"
            for name, took in sorted(tried().items())
            if took
        ]
        DTYPES.write_text("\n".join(lines) + "\n")
        return
    for row in support():
        if not wanted or row.path in wanted:
            print(*row[:-1], sep=" | ")


if __name__ == "__main__":
    main()
