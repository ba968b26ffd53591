"""Names: of values in a graph (`add`, `relu_1`), of functions in generated code (`torch.relu`), of types."""

from __future__ import annotations

import builtins
import keyword
import re
import types
from typing import Any

from .._core.devices import device
from .._core.dtypes import dtype
from .._core.layouts import layout, memory_format
from .._library.schema_texts import is_python
from .._ops.registry import functions, methods
from .._ops.registry import ops as _ops
from .._tensor import Tensor
from .._tensor.constructors import typename

# Names that generated code uses for its own ends.
RESERVED = frozenset(["inf", "nan", "NoneType", "torch", "device", "fx_pytree", "pytree"])
_BUILTIN = frozenset(dir(builtins))
_NUMBERED = re.compile(r"(.*)_(\d+)$")


def snake_case(text: str) -> str:
    """`MyFunction` as `my_function`.

    >>> snake_case("OrderedDict"), snake_case("blocks.Conv2D"), snake_case("relu_")
    ('ordered_dict', 'blocks.conv2d', 'relu_')
    """
    made = []
    previous = False  # whether the letter before was small
    for c in text:
        if c.isupper() and previous:
            made.append("_")
        made.append(c.lower())
        previous = c.islower()
    return "".join(made)


class Namespace:
    """Gives out names, each once.

    >>> names = Namespace()
    >>> [names.create_name(n, None) for n in ("add", "add", "sum", "layers.0", "add_1")]
    ['add', 'add_1', 'sum_1', 'layers_0', 'add_2']
    """

    def __init__(self) -> None:
        self.owners: dict[Any, str] = {}
        self.used: set[str] = set()
        self.counts: dict[str, int] = {}

    def create_name(self, candidate: str, owner: Any) -> str:
        """A free name that is like `candidate`; the same again for an owner that has one."""
        if owner is not None and owner in self.owners:
            return self.owners[owner]
        candidate = re.sub(r"[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        if candidate[0].isdigit():
            candidate = "_" + candidate
        found = _NUMBERED.match(candidate)
        base, number = (found[1], int(found[2])) if found else (candidate, None)
        if candidate in self.used or self._illegal(candidate, owner):
            number = max(self.counts.get(base, 0), number or 0) + 1
            while (candidate := f"{base}_{number}") in self.used or self._illegal(candidate, owner):
                number += 1
        if number is not None:
            self.counts[base] = max(self.counts.get(base, 0), number)
        self.used.add(candidate)
        if owner is not None:
            self.owners[owner] = candidate
        return candidate

    def associate(self, name: str, owner: Any) -> None:
        """Books a name that is known to be free."""
        self.used.add(name)
        self.owners[owner] = name

    def rename(self, owner: Any, name: str) -> None:
        self.owners[owner] = name
        self.used.add(name)

    @staticmethod
    def _illegal(name: str, owner: Any) -> bool:
        if keyword.iskeyword(name):
            return True
        if name in _BUILTIN:  # the builtin itself may be called by its name
            return owner is not getattr(builtins, name)
        return name in RESERVED


# -- functions -------------------------------------------------------------------------------------------------------

_paths: dict[int, tuple[str, Any]] = {}  # id of a function, or of one that it wraps -> path, function
_known = [0]


def _find(function: Any) -> tuple[str, Any] | None:
    if _known[0] != functions.size():  # families are imported by and by
        for path, f in functions.loaded():
            layer = f
            while layer is not None:
                before = _paths.get(id(layer))
                if before is None or path.rpartition(".")[2] == f.__name__ != before[0].rpartition(".")[2]:
                    _paths[id(layer)] = (path, f)
                layer = getattr(layer, "__wrapped__", None)
        _known[0] = functions.size()
    found = _paths.get(id(function))
    return found if found is not None and functions.get(found[0]) is found[1] else None


def public_path(function: Any) -> str | None:
    """Where one of our functions is found below the package: "relu", "nn.functional.relu"; None for all others."""
    found = _find(function)
    if found is None:
        return None
    return f"functional.{found[0]}" if is_python(found[0]) else found[0]


def public_form(function: Any) -> Any:
    """The function that users call, for one that a layer of it knows; any other function itself."""
    found = _find(function)
    if found is None:  # the record of an activation
        ours = (getattr(function, "__module__", None) or "").startswith(__name__.partition(".")[0] + "._ops")
        return functions.get(f"nn.functional.{function.__name__}", function) if ours else function
    return found[1]


def asks_nobody(function: Any) -> bool:
    """Whether one of our functions leaves it to the records that it runs to ask the classes of its arguments."""
    return public_path(function) is not None and not hasattr(function, "__wrapped__")


def short_name(target: Any) -> str:
    """What values that a target computes are called after."""
    if isinstance(target, str):
        text = target
    else:
        path = public_path(target)
        text = getattr(target, "__name__", str(target))
        if path is not None and path.startswith("nn.functional."):
            text = path.rpartition(".")[2]
    if text.startswith("__") and text.endswith("__"):
        text = text[2:-2]
    return snake_case(text)


def is_method_only(function: Any) -> bool:
    """Whether a function is reached only through tensors."""
    return public_path(function) is None and methods.get(getattr(function, "__name__", "")) is function


def lookup(path: str) -> Any:
    """The function at a public path; how saved graphs name functions."""
    found = functions.get(path.removeprefix("functional."))
    if found is None:
        found = getattr(_ops, path)
    return found


def qualified_name(function: Any) -> str:
    """The full name of a callable as PyTorch programs write it.

    >>> import flambeau as torch, operator, math
    >>> qualified_name(torch.relu), qualified_name(operator.add), qualified_name(getattr), qualified_name(math.sqrt)
    ('torch.relu', '_operator.add', 'getattr', 'math.sqrt')
    """
    path = public_path(function)
    if path is not None:
        return "torch." + path
    name = getattr(function, "__name__", None)
    if name is None:
        return str(function)
    if getattr(builtins, name, None) is function:
        return str(name)
    if methods.get(name) is function:
        return f"torch.Tensor.{name}"
    if isinstance(function, type) or not hasattr(function, "__self__"):
        home = getattr(function, "__module__", None) or ""
    else:
        home = getattr(function, "__module__", None) or type(function.__self__).__module__
    if hasattr(function, "_overloadname") or hasattr(function, "_qualified_op_name"):
        return f"torch.ops.{function}"
    return _as_torch(f"{home}.{name}" if home else name)


def _as_torch(name: str) -> str:
    """Our own names under the name that PyTorch programs know."""
    package = __name__.partition(".")[0]
    return "torch" + name[len(package) :] if name.partition(".")[0] == package else name


def pretty_target(target: Any) -> str:
    """A target in the printed form of a graph."""
    if isinstance(target, str):
        return target
    home = getattr(target, "__module__", None)
    name = getattr(target, "__name__", None)
    if home == "builtins":
        return f"builtins.{name}"
    if home == "_operator":
        return f"operator.{name}"
    return qualified_name(target)


# -- types -----------------------------------------------------------------------------------------------------------


def type_text(kind: Any) -> str:
    """A type in printed form.

    >>> import flambeau as torch, typing
    >>> type_text(int), type_text(torch.Tensor), type_text(typing.List[torch.Tensor]), type_text(list[int])
    ('int', 'torch.Tensor', 'typing.List[torch.Tensor]', 'list[int]')
    """
    if kind is Tensor:
        return "torch.Tensor"
    if isinstance(kind, type) and not isinstance(kind, types.GenericAlias):
        name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        return _as_torch(name)
    if kind is ...:
        return "..."
    if isinstance(kind, types.FunctionType):
        return kind.__name__
    return re.sub(rf"\b{__name__.partition('.')[0]}\b", "torch", repr(kind))


def constant_text(value: Any) -> str | None:
    """Code for objects of the framework; None for others."""
    if isinstance(value, (dtype, memory_format, layout)):
        return str(value)
    if isinstance(value, device):
        return repr(value)
    if isinstance(value, type) and issubclass(value, Tensor):
        return "torch." + typename(value).rpartition(".")[2]
    return None
