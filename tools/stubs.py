"""Writes the type stubs of the package from its operations: `python tools/stubs.py`; `--check` says whether they are up to date.

Operations get the overloads of their schemas; what has no schema gets the signature of its function, as far as its annotations use
names that stubs know.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import math
import re
import sys
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import flambeau  # noqa: E402
import flambeau.nn.functional  # noqa: E402
from flambeau._core import return_types  # noqa: E402
from flambeau._kernel.native.site import Site  # noqa: E402
from flambeau._library.schema_texts import function_of, has_own_arguments, record_of, takes_out  # noqa: E402
from flambeau._library.signatures import Form, forms_of  # noqa: E402
from flambeau._names import lazy as _lazy  # noqa: E402
from flambeau._ops.families import load_all  # noqa: E402
from flambeau._ops.registry import functions, methods, ops  # noqa: E402

PACKAGE = ROOT / "flambeau"
NOTE = "# Written by tools/stubs.py from the operations' schemas and signatures. Do not edit.\n"
RESULTS = frozenset(kind.__name__ for kind in return_types.all_kinds())
# Names in annotations -> what the stubs call them: functions and dtypes hide Python's types there.
NAMES = {
    "int": "_int", "float": "_float", "bool": "_bool", "complex": "_complex", "dtype": "_dtype", "device": "_device",
    "layout": "_layout", "memory_format": "_memory_format", "_dtype": "_dtype", "_device": "_device", "Tensor": "Tensor",
    "str": "str", "bytes": "bytes", "None": "None", "Any": "Any", "object": "object", "tuple": "tuple", "list": "list",
    "dict": "dict", "Sequence": "Sequence", "Callable": "Callable", "Iterable": "Iterable", "Iterator": "Iterator", "Size": "Size",
    "Generator": "Generator", "np": "np", "ndarray": "ndarray", "set": "set",
}  # fmt: skip
HEADER = """
from collections.abc import Callable, Iterable, Iterator, Sequence
from builtins import bool as _bool, complex as _complex, float as _float, int as _int
from typing import Any, overload

import numpy as np

from {dots} import return_types
from {dots}_core.devices import device as _device
from {dots}_core.dtypes import dtype as _dtype
from {dots}_core.layouts import layout as _layout, memory_format as _memory_format
from {dots}_core.sizes import Size as Size
from {dots}_ops.making.generator import Generator as Generator
from {dots}_tensor.storage import UntypedStorage as UntypedStorage
{tensor}
_Number = _int | _float | _complex
_Scalar = Any  # the number that a tensor holds
_DeviceLike = _device | str | _int
_size = Sequence[_int]
"""


def header(dots: str, tensor: bool = True) -> str:
    return NOTE + HEADER.format(dots=dots, tensor=f"from {dots}_tensor import Tensor\n" if tensor else "")


def annotation(text: Any) -> str:
    """An annotation in the names of stubs; `Any` if it uses one that they do not know."""
    if not isinstance(text, str):
        return "Any" if text is inspect.Parameter.empty else annotation(getattr(text, "__name__", "Any"))
    words = re.findall(r"[A-Za-z_]\w*(?:\.\w+)*", text)
    if "'" in text or '"' in text or any(w not in NAMES and w != "np.ndarray" for w in words):
        return "Any"
    return re.sub(r"[A-Za-z_]\w*(?:\.\w+)*", lambda m: NAMES.get(m[0], m[0]), text)


def default(value: Any) -> str:
    finite = not isinstance(value, float) or math.isfinite(value)
    return repr(value) if value is None or (isinstance(value, (bool, int, float, str)) and finite) else "..."


def signature(function: Any, method: bool = False, static: bool = False, out: bool = False) -> str:
    """The signature of a Python function as a stub has it."""
    try:
        found = inspect.signature(inspect.unwrap(function))
    except (TypeError, ValueError):
        return "(self, *args: Any, **kwargs: Any) -> Any" if method else "(*args: Any, **kwargs: Any) -> Any"
    parts, named = [], False
    listed = list(found.parameters.values())
    for i, p in enumerate(listed):
        if method and i == 0:
            parts.append("self")
            continue
        kind = annotation(p.annotation)
        if p.kind is p.VAR_POSITIONAL:
            parts.append(f"*{p.name}: {kind}")
            named = True
        elif p.kind is p.VAR_KEYWORD:
            if out and "out" not in found.parameters:
                parts += [*([] if named else ["*"]), "out: Tensor | None = None"]
                out = False
            parts.append(f"**{p.name}: {kind}")
        else:
            if p.kind is p.KEYWORD_ONLY and not named:
                parts.append("*")
                named = True
            if p.default is None and kind not in ("Any", "None") and "None" not in kind:
                kind += " | None"
            parts.append(f"{p.name}: {kind}" + ("" if p.default is p.empty else f" = {default(p.default)}"))
            if p.kind is p.POSITIONAL_ONLY and (i + 1 == len(listed) or listed[i + 1].kind is not p.kind):
                parts.append("/")
    if out and "out" not in found.parameters:
        parts += [*([] if named else ["*"]), "out: Tensor | None = None"]
    return f"({', '.join(parts)}) -> {annotation(found.return_annotation)}"


def define(name: str, signatures: list[str], indent: str = "", decorator: str = "") -> str:
    lines = []
    for text in signatures:
        if len(signatures) > 1:
            lines.append(f"{indent}@overload\n")
        body = "" if ": ..." in text else ": ..."
        lines.append(f"{decorator}{indent}def {name}{text}{body}\n")
    return "".join(lines)


def of_schemas(forms: list[Form], method: bool) -> list[str]:
    texts = [str(form) for form in forms]
    if method:
        texts = [t.replace("(", "(self, " if not t.startswith("()") else "(self", 1) for t in texts]
    return list(dict.fromkeys(texts))


def innermost(function: Any) -> Any:
    while True:
        if isinstance(getattr(function, "__self__", None), Site):
            function = function.__self__.slow
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            return function


def _is_variadic(function: Any) -> bool:
    """Whether a function's signature says nothing: that of a pointwise operation."""
    return bool(getattr(function, "__code__", None) and function.__code__.co_flags & inspect.CO_VARARGS)


def public_function(path: str, function: Any) -> str:
    """The stub of a function below the package."""
    module, _, name = path.rpartition(".")
    operator = f"{module}_{name}" if module in ("linalg", "special", "fft") else name
    of_python = module not in ("", "linalg", "special", "fft") and not _is_variadic(innermost(function))
    of_python = of_python or has_own_arguments(operator)
    forms = [] if of_python else forms_of(operator, False, RESULTS)
    if forms and function_of(operator) is function:
        return define(name, of_schemas(forms, False))
    return define(name, [signature(innermost(function), out=takes_out(function))])


def write_functions(path: str) -> str:
    """The stub of a module that consists of operations."""
    module = importlib.import_module(f"flambeau.{path}")
    text = [header("." * (path.count(".") + (2 if "__init__" in str(module.__file__) else 1)))]
    text += reexports(Path(module.__file__ or ""))
    for name in sorted(dir(module)):
        value = getattr(module, name)
        if functions.get(f"{path}.{name}") is value:
            text.append(public_function(f"{path}.{name}", value))
        elif (
            name.startswith("_")
            or name in ("Any", "annotations", "install")
            or f"as {name}\n" in "".join(text[1:])
            or isinstance(value, types.ModuleType)
        ):
            continue
        elif isinstance(value, types.FunctionType) and value.__module__ == module.__name__:
            text.append(define(name, [signature(value)]))
        else:
            text.append(f"{name}: Any\n")
    return "".join(text)


def reexports(file: Path) -> list[str]:
    """The imports of a file, as a stub shows them on."""
    found = []
    lines: list[ast.stmt] = []
    for node in ast.parse(file.read_text()).body:
        lines += node.body if isinstance(node, ast.With) else [node]
    for node in lines:
        if isinstance(node, ast.ImportFrom) and (node.level or node.module == "math"):
            for a in node.names:
                shown = a.asname or a.name
                if not shown.startswith("_") and shown != "install":
                    found.append(f"from {'.' * node.level}{node.module or ''} import {a.name} as {shown}\n")
    return found


# -- the package itself ------------------------------------------------------------------------------------------------


def write_package() -> str:
    text = [header(".", tensor=False), "from ._tensor import Tensor as Tensor\n"]
    text += [line for line in reexports(PACKAGE / "__init__.py") if "import Tensor " not in line]
    known = set(re.findall(r"as (\w+)\n", "".join(text)))
    for name, home in sorted(_lazy.HOME.items()):
        if name not in known:
            source = "." if name == home else f".{home}"
            text.append(f"from {source} import {name} as {name}\n")
            known.add(name)
    text.append("from ._ops_namespace import ops as ops\n" if "ops" not in known else "")
    text.append("\n__version__: str\nnewaxis: None\ntorch: Any\n\n")
    for name in sorted(dir(flambeau)):
        value = getattr(flambeau, name)
        if (
            name in known
            or name.startswith("__")
            or name in ("newaxis", "torch")
            or isinstance(value, types.ModuleType)
        ):
            continue
        if functions.get(name) is value:
            text.append(public_function(name, value))
        elif isinstance(value, flambeau.dtype):
            text.append(f"{name}: _dtype\n")
        elif isinstance(value, (flambeau.layout, flambeau.memory_format, flambeau.qscheme)):
            kind = type(value).__name__
            text.append(f"{name}: {'qscheme' if kind == 'qscheme' else '_' + kind}\n")
        elif isinstance(value, type) and name.endswith("Tensor") and name != "Tensor":
            text.append(f"class {name}(Tensor): ...\n")
        elif isinstance(value, type) and name.endswith("Storage"):
            text.append(f"class {name}(TypedStorage): ...\n")
    return "".join(text)


# -- tensors ---------------------------------------------------------------------------------------------------------------

OPERATORS = {
    "binary": "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow matmul rmatmul "
    "and rand or ror xor rxor lshift rlshift rshift rrshift iadd isub imul itruediv ifloordiv imod ipow iand ior ixor "
    "ilshift irshift lt le gt ge div rdiv idiv",
    "unary": "neg pos invert abs",
}
# What is attached to tensors from elsewhere, or has a type that no annotation says.
OWN = {
    "__eq__": "(self, other: Any) -> Tensor: ...  # type: ignore[override]",
    "__ne__": "(self, other: Any) -> Tensor: ...  # type: ignore[override]",
    "__hash__": "(self) -> _int",
    "__getitem__": "(self, index: Any) -> Tensor",
    "__setitem__": "(self, index: Any, value: Any) -> None",
    "__iter__": "(self) -> Iterator[Tensor]",
    "__len__": "(self) -> _int",
    "__init__": "(self, *args: Any, **kwargs: Any) -> None",
    "__bool__": "(self) -> _bool",
    "__float__": "(self) -> _float",
    "__int__": "(self) -> _int",
    "__index__": "(self) -> _int",
    "__complex__": "(self) -> _complex",
    "__contains__": "(self, element: Any) -> _bool",
    "__format__": "(self, spec: str) -> str",
    "__repr__": "(self, *, tensor_contents: Any = None) -> str",
    "__array__": "(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]",
    "tolist": "(self) -> Any",
    "item": "(self) -> Any",
    "numpy": "(self, *, force: _bool = False) -> np.ndarray[Any, Any]",
    "dim": "(self) -> _int",
    "element_size": "(self) -> _int",
    "requires_grad_": "(self, requires_grad: _bool = True) -> Tensor",
    "type_as": "(self, other: Tensor) -> Tensor",
}  # fmt: skip
_TO = "non_blocking: _bool = False, copy: _bool = False, *, memory_format: _memory_format | None = None) -> Tensor"
OVERLOADED = {
    "to": [
        f"(self, dtype: _dtype, {_TO}",
        f"(self, device: _DeviceLike | None = None, dtype: _dtype | None = None, {_TO}",
        f"(self, other: Tensor, {_TO}",
    ],
    "size": ["(self, dim: None = None) -> Size", "(self, dim: _int) -> _int"],
    "stride": ["(self, dim: None = None) -> tuple[_int, ...]", "(self, dim: _int) -> _int"],
    "type": [
        "(self, dtype: None = None, non_blocking: _bool = False) -> str",
        "(self, dtype: Any, non_blocking: _bool = False) -> Tensor",
    ],
}
PROPERTIES = {
    "shape": "Size", "device": "_device", "requires_grad": "_bool", "grad": "Tensor | None", "grad_fn": "Any", "is_leaf": "_bool",
    "ndim": "_int", "data": "Tensor", "layout": "_layout", "name": "str | None", "itemsize": "_int", "nbytes": "_int", "output_nr": "_int",
    "_version": "_int", "_base": "Tensor | None", "T": "Tensor", "mT": "Tensor", "H": "Tensor", "mH": "Tensor", "real": "Tensor",
    "imag": "Tensor",
}  # fmt: skip


def method_of(name: str, value: Any) -> str:
    """The stub of a method."""
    if name in OVERLOADED:
        return define(name, OVERLOADED[name], "    ")
    if name in OWN:
        return define(name, [OWN[name]], "    ")
    short = name.strip("_")
    if name == f"__{short}__" and short in OPERATORS["binary"].split():
        return define(name, ["(self, other: Tensor | _Number) -> Tensor"], "    ")
    if name == f"__{short}__" and short in OPERATORS["unary"].split():
        return define(name, ["(self) -> Tensor"], "    ")
    if isinstance(value, (staticmethod, classmethod)):
        kind = type(value).__name__
        return define(
            name,
            [signature(value.__func__, kind == "classmethod").replace("(self", "(cls", 1)],
            "    ",
            f"    @{kind}\n",
        )
    if name in methods and not has_own_arguments(name):
        forms = of_schemas(forms_of(name, True, RESULTS), True)
        if forms:
            return define(name, forms, "    ")
    return define(name, [signature(innermost(getattr(value, "__func__", value)), True)], "    ")


def write_tensor() -> str:
    text = [header("."), "\nclass TensorMethods:\n"]
    own = ast.parse((PACKAGE / "_tensor/__init__.py").read_text())
    written = {
        n.name
        for c in own.body
        if isinstance(c, ast.ClassDef) and c.name == "Tensor"
        for n in c.body
        if isinstance(n, ast.FunctionDef)
    }
    for name in list(vars(flambeau.Tensor)):
        getattr(flambeau.Tensor, name)  # what waits for its first use is made
    for name, value in sorted(vars(flambeau.Tensor).items()):
        if name in (
            "__module__",
            "__doc__",
            "__slots__",
            "__dict__",
            "__weakref__",
            "__annotations__",
            "__init_subclass__",
            "__new__",
        ):
            continue
        if name in written or isinstance(value, types.MemberDescriptorType):
            continue
        if isinstance(value, property):
            kind = PROPERTIES.get(name) or ("_bool" if name.startswith("is_") else "Any")
            read = "Tensor | Any" if name == "grad" else kind  # it is there wherever a program reads it
            text.append(f"    @property\n    def {name}(self) -> {read}: ...\n")
            if value.fset is not None:
                kind = "object" if name == "grad" else kind  # else checkers believe that what was set to None stays so
                text.append(f"    @{name}.setter\n    def {name}(self, value: {kind}) -> None: ...\n")
        elif callable(value) or isinstance(value, (staticmethod, classmethod)):
            text.append(method_of(name, value))
    return "".join(text)


def write_results() -> str:
    text = [
        NOTE,
        "from typing import Any, NamedTuple\n\nfrom ._tensor import Tensor\n\nall_return_types: list[Any]\n\n",
    ]
    text.append("def pytree_register_structseq(cls: Any) -> None: ...\n\n")
    for name in sorted(RESULTS):
        kind = getattr(return_types, name)
        text.append(f"class {name}(NamedTuple):\n" + "".join(f"    {field}: Tensor\n" for field in kind._fields))
    return "".join(text)


def write_exports(path: str) -> str:
    """The stub of a package that gathers what its files define."""
    package = importlib.import_module(f"flambeau.{path}")
    own = f"flambeau.{path}."
    text = [NOTE, "from typing import Any\n\n"]
    names = getattr(package, "__all__", None) or [n for n in dir(package) if not n.startswith("_")]
    for name in sorted({*names, *[n for n in dir(package) if isinstance(getattr(package, n), types.ModuleType)]}):
        value = getattr(package, name)
        home = getattr(value, "__module__", None) or ""
        if isinstance(value, types.ModuleType):
            if value.__name__ == own + name:
                text.append(f"from . import {name} as {name}\n")
        elif home.startswith("flambeau.") and hasattr(sys.modules.get(home), getattr(value, "__name__", name)):
            above = "." * (own.count(".") + 1 if not home.startswith(own) else 1)
            below = home.removeprefix(own) if home.startswith(own) else home.removeprefix("flambeau.")
            above = above if home.startswith(own) else "." * own.count(".")
            text.append(f"from {above}{below} import {value.__name__} as {name}\n")
        else:
            text.append(f"{name}: Any\n")
    return "".join(text)


def write_operations() -> str:
    """The stub of `ops`: what operations call each other by. Arguments are those of the functions, of any type that these take."""
    load_all()
    text = [header(".."), "\nclass Operations:\n    symbolic: _bool\n"]
    for name, value in sorted(vars(ops).items()):
        op = record_of(value)
        if op is not None:
            given = ", ".join(f"{n}: Any" if n in op.names[: op.arity] else f"{n}: Any = ..." for n in op.names)
            signatures = [f"(_ops, {given}, *, out: Any = None) -> Tensor"]
        elif callable(value):
            text_of = signature(innermost(value), out=takes_out(value))
            signatures = ["(_ops" + (", " if text_of[1] != ")" else "") + text_of[1:]]
        else:
            text.append(f"    {name}: Any\n")
            continue
        text.append(define(name, signatures, "    "))
    return "".join(text)


FILES: dict[str, Callable[[], str]] = {
    "__init__.pyi": write_package,
    "_tensor_methods.pyi": write_tensor,
    "return_types.pyi": write_results,
    "_ops/operations.pyi": write_operations,
    "linalg/__init__.pyi": lambda: write_functions("linalg"),
    "fft/__init__.pyi": lambda: write_functions("fft"),
    "special/__init__.pyi": lambda: write_functions("special"),
    "nn/__init__.pyi": lambda: write_exports("nn"),
    "nn/modules/__init__.pyi": lambda: write_exports("nn.modules"),
    "optim/__init__.pyi": lambda: write_exports("optim"),
    "masked/__init__.pyi": lambda: write_functions("masked"),
    "sparse/__init__.pyi": lambda: write_functions("sparse"),
    "signal/windows/__init__.pyi": lambda: write_functions("signal.windows"),
    "nn/functional.pyi": lambda: write_functions("nn.functional"),
}


def stale() -> Iterable[str]:
    """The files that are not as they would be written now."""
    for file, write in FILES.items():
        path = PACKAGE / file
        if not path.exists() or path.read_text() != write():
            yield file


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="change nothing; the exit status says whether files are stale"
    )
    if parser.parse_args().check:
        found = list(stale())
        print("\n".join(f"stale: {file}" for file in found) or "all stubs are up to date")
        return bool(found)
    for file, write in FILES.items():
        (PACKAGE / file).write_text(write())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
