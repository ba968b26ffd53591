"""Puts functions, methods, operators and properties from the registry onto `Tensor` and the public modules."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from .._kernel.native.site import Site, another, as_method
from .._ops.registry import functions, methods, ops, records
from . import Tensor

# Modules whose functions are operators of PyTorch's, and what those have before their names.
_SCHEMATIC = {"": "", "linalg": "linalg_", "special": "special_", "fft": "fft_"}


def finder(namespace: dict[str, Any], path: str = "") -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """What finds a public function below `path` ("" for the top, "linalg", …) when a module is first asked for it, and what lists
    the names of all."""
    prefix = path + "." if path else ""

    def find(name: str) -> Any:
        function = functions.get(prefix + name)
        if function is None or "." in name:
            here = namespace["__name__"]
            raise AttributeError(f"module {here!r} has no attribute {name!r}", name=name, obj=sys.modules.get(here))
        namespace[name] = function
        _give_home(function, namespace["__name__"], name)
        _describe(function, name, path)
        return function

    def names() -> list[str]:
        below = [name[len(prefix) :] for name in functions.names() if name.startswith(prefix)]
        return [name for name in below if "." not in name]

    return find, names


def install(namespace: dict[str, Any], path: str) -> None:
    """Gives a module the public functions below `path`, each when it is first used."""
    find, names = finder(namespace, path)

    def directory() -> list[str]:
        return sorted({*namespace, *names()})

    namespace["__dir__"] = directory
    namespace["__getattr__"] = lambda name: public_names(directory()) if name == "__all__" else find(name)


def public_names(names: list[str]) -> list[str]:
    """What `from module import *` takes."""
    return [name for name in names if not name.startswith("_")]


def _give_home(function: Any, module: str, name: str) -> None:
    """Lets pickle find a generated function, which is no global of the file that made it, where users find it."""
    if isinstance(getattr(function, "__self__", None), Site):
        if function.__name__ == name:
            function.__module__ = module
        elif function.__name__ == f"special_{name}":
            function.__module__ = "flambeau._C._special"
    if isinstance(function, FunctionType):
        if function.__name__.startswith(
            ("functional_", "numbered_")
        ):  # made so as not to clash with the operation of the same name
            function.__name__ = name
        home = sys.modules.get(function.__module__)
        if getattr(home, function.__qualname__, None) is not function:
            function.__module__, function.__qualname__ = module, name


class _Shown(inspect.Signature):
    """The signature that PyTorch's schema gives a function, found out when somebody looks at it."""

    __slots__ = ("_found", "_function", "_name")

    def __init__(self, name: str, function: FunctionType):
        self._name, self._function, self._found = name, function, None

    def _signature(self) -> inspect.Signature:
        if self._found is None:
            from .._library.signatures import signature_of  # which imports all families

            self._found = signature_of(self._name) or own_signature(self._function)
        return self._found

    @property
    def _parameters(self) -> Any:
        return self._signature().parameters

    @property
    def _return_annotation(self) -> Any:
        return self._signature().return_annotation

    def replace(self, **changes: Any) -> inspect.Signature:
        return self._signature().replace(**changes)

    def __reduce__(self) -> Any:
        return inspect.Signature, (list(self._parameters.values()),)


def own_signature(function: Any) -> inspect.Signature:
    """The signature that a function has in this package, in whose order calls are bound."""
    while isinstance(vars(function).get("__signature__") if hasattr(function, "__dict__") else None, _Shown):
        if hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            plain = FunctionType(function.__code__, {}, function.__name__, function.__defaults__, function.__closure__)
            plain.__kwdefaults__, plain.__annotations__ = function.__kwdefaults__, function.__annotations__
            return inspect.signature(plain)
    return inspect.signature(function)


def _describe(function: Any, name: str, path: str = "") -> None:
    """Gives a function the signature that PyTorch's has. In-place forms are made from the operations, whose docstrings speak of a new
    tensor."""
    if isinstance(function, FunctionType) and path in _SCHEMATIC and "__signature__" not in function.__dict__:
        function.__signature__ = _Shown(_SCHEMATIC[path] + name, function)  # type: ignore[attr-defined]
    if name[-1] == "_" and name[-2:] != "__" and isinstance(function, FunctionType) and function.__doc__ is None:
        function.__doc__ = f"`{name[:-1]}`, with the result written into the tensor itself, which is returned."


def _operator(name: str, reflected: bool = False, arrays: bool = False) -> Callable[..., Any]:
    """A binary operator that leaves operands it does not know to their own class. One that knows NumPy's `arrays` is == or !=: Python
    would compare by identity what nobody knows."""

    def function(first: Any, second: Any) -> Any:
        nonlocal function
        function = _function_of(name)  # from the first call on
        return function(first, second)

    def operator(self: Tensor, other: Any) -> Any:
        try:
            return function(self, other)
        except TypeError:
            return function(self, ops.from_numpy(other)) if arrays and isinstance(other, np.ndarray) else NotImplemented

    def backwards(self: Tensor, other: Any) -> Any:
        try:
            return function(other, self)
        except TypeError:
            return NotImplemented

    return backwards if reflected else operator


def _function_of(name: str) -> Any:
    """The function of an operator."""
    return records[name].call if name in _DIRECT else getattr(ops, name)


def _operator_of(name: str) -> Any:
    """An operator; if its function finds plans itself, so does the operator."""
    return as_method(another(_function_of(name), _operator(name)))


_BINARY = {
    "__add__": "add", "__radd__": "add", "__sub__": "sub", "__rsub__": "rsub", "__rtruediv__": "rdiv", "__mul__": "mul", "__rmul__": "mul",
    "__truediv__": "div", "__div__": "div", "__idiv__": "div_", "__lt__": "lt", "__le__": "le", "__gt__": "gt", "__ge__": "ge",
    "__and__": "bitwise_and", "__rand__": "bitwise_and", "__or__": "bitwise_or", "__ror__": "bitwise_or",
    "__xor__": "bitwise_xor", "__rxor__": "bitwise_xor", "__lshift__": "bitwise_left_shift",
    "__rshift__": "bitwise_right_shift", "__mod__": "remainder", "__pow__": "pow", "__matmul__": "matmul",
    "__floordiv__": "floor_divide",
    "__iadd__": "add_", "__isub__": "sub_", "__imul__": "mul_", "__itruediv__": "div_", "__ifloordiv__": "floor_divide_",
    "__imod__": "remainder_", "__ipow__": "pow_", "__iand__": "bitwise_and_", "__ior__": "bitwise_or_",
    "__ixor__": "bitwise_xor_", "__ilshift__": "bitwise_left_shift_", "__irshift__": "bitwise_right_shift_",
}  # fmt: skip
_REFLECTED = {
    "__rfloordiv__": "floor_divide", "__rpow__": "pow", "__rmod__": "remainder",
    "__rmatmul__": "matmul", "__rlshift__": "bitwise_left_shift", "__rrshift__": "bitwise_right_shift",
}  # fmt: skip
OPERATORS = {**_BINARY, **_REFLECTED, "__eq__": "eq", "__ne__": "ne"}  # with two operands, and their functions
# their functions only add options to the record, which operators do not have
_DIRECT = frozenset(("add", "sub", "rsub", "div", "rdiv"))
_UNARY = {"__neg__": "neg", "__abs__": "abs", "__invert__": "invert", "__pos__": "positive"}
# operators that classes and modes which take over are given as such; of others they get the method (`add` of x + y)
_SHOWN = [
    "__rsub__",
    "__pow__",
    "__rpow__",
    "__floordiv__",
    "__rfloordiv__",
    "__rmod__",
    "__rmatmul__",
    "__and__",
    "__or__",
    "__xor__",
    "__rand__",
    "__ror__",
    "__rxor__",
    "__lshift__",
    "__rshift__",
    "__rlshift__",
    "__rrshift__",
    "__eq__",
    "__invert__",
]


def quiet_methods() -> dict[str, Any]:
    """Attributes that ask nobody whether to take over: operators, and views that go straight to their function."""
    return {name: Tensor.__dict__[name] for name in (*_SHOWN, *_direct())}


def _direct() -> list[str]:
    """The methods that ask nobody. Their families do not wait: classes and modes must know them."""
    known = dict.items(methods)
    return [name for name, method in known if isinstance(method, property) or _is_direct(name, method)]


def _is_direct(name: str, method: Any) -> bool:
    """Whether a method goes past the form that asks, which is the function of the same name, if there is one."""
    return name == "contiguous" or getattr(dict.get(functions, name), "__wrapped__", None) is method


def _own(name: str, value: Any) -> Any:
    """A method that is not the function which operations use among themselves: modes watch it."""
    if isinstance(value, property):
        get, put = value.fget, value.fset
        return property(lambda self: get(self), put, value.fdel, value.__doc__)
    if not _is_direct(name, value):
        return as_method(value)
    made = FunctionType(value.__code__, value.__globals__, name, value.__defaults__, value.__closure__)
    made.__kwdefaults__, made.__doc__, made.__annotations__ = value.__kwdefaults__, value.__doc__, value.__annotations__
    made.__module__, made.__qualname__ = "flambeau", f"Tensor.{name}"
    _describe(made, name)
    return made


class _Later:
    """Stands on Tensor for what is made when it is first asked for."""

    __slots__ = ("make", "name", "source")

    def __init__(self, name: str, make: Callable[[str], Any], source: str):
        self.name, self.make, self.source = name, make, source

    def __get__(self, instance: Any, kind: Any = None) -> Any:
        made = self.make(self.source)
        if Tensor.__dict__.get(self.name) is self:
            setattr(Tensor, self.name, made)
        bind = getattr(type(made), "__get__", None)
        return made if bind is None else bind(made, instance, kind)


def _method(name: str) -> Any:
    """What Tensor has under a name of `methods`."""
    function = methods.get(name)
    if function is None:
        raise AttributeError(f"type object 'Tensor' has no attribute {name!r}")
    _describe(function, name)
    return _own(name, function)


def attach() -> None:
    """Called once, after the families that do not wait are registered."""
    for name in methods.names():
        setattr(Tensor, name, _Later(name, _method, name))
    for name in _direct():
        setattr(Tensor, name, _method(name))
    for special, name in _UNARY.items():
        setattr(Tensor, special, _Later(special, lambda name: as_method(getattr(ops, name)), name))
    Tensor.__invert__ = lambda self: ops.invert(self)  # type: ignore[method-assign]
    for special, name in _BINARY.items():
        if special in _SHOWN:
            setattr(Tensor, special, _operator(name))
        else:
            setattr(Tensor, special, _Later(special, _operator_of, name))
    Tensor.__eq__ = _operator("eq", arrays=True)  # type: ignore[method-assign]
    Tensor.__ne__ = _operator("ne", arrays=True)  # type: ignore[method-assign]
    for special, name in _REFLECTED.items():
        setattr(Tensor, special, _operator(name, reflected=True))
    for special in _SHOWN:
        getattr(Tensor, special).__name__ = "pow" if special == "__pow__" else special
    Tensor.__hash__ = object.__hash__  # type: ignore[method-assign]
