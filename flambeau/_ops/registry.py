"""The tables of operations. Functions, methods, operators, in-place and `out=` forms are all derived from here."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .._core.config import memory_problem
from .._core.state import modes
from .._errors import teach
from .._errors.frames import warn_user
from .._tensor import Tensor
from .families import Table

if TYPE_CHECKING:
    from .operations import Operations  # a stub: the operations that families declare
else:
    Operations = object


class Namespace(Operations):
    """Public functions by name; also the tensor reading of the domain `m`. Filled as families are imported."""

    symbolic = False


ops = Namespace()
# Every dispatched record by name (pointwise and primitive), for tests, capture and export.
records = Table()
# What `_methods` puts on the classes: attribute of Tensor -> function; dotted path below the package -> function.
methods = Table()
functions = Table()


def _not_set(*args: Any) -> Any:
    raise RuntimeError("the operations are not imported yet")


# Set by `_overrides` and `inplace`, which come after this module.
overridden: Callable[[Any, Any, Any], Any] = _not_set
watched: Callable[[Any, Any, Any], Any] = _not_set  # the same without autocast and profiler, which look at records
into_out: Callable[[Any, Any, Any, Any], Any] = _not_set
in_place_form: Callable[[str, Any], Any] = _not_set
# Set by `sites`: the form of a function that finds the plans of its calls; the function itself where there are none.
with_plans: Callable[..., Any] = _not_set


# Operations that take a position which a tensor may hold, by name: the number of that argument, and what it is called.
position_arguments: dict[str, tuple[int, str]] = {}


def expose(name: str, function: Any, path: str | None = "", method: str | None = "") -> None:
    """Makes a function public: under `path` ("" for its own name, None for nowhere) and as a method."""
    setattr(ops, name, function)
    if path is not None:
        functions[path or name] = function
    if method is not None:
        methods[method or name] = function


def public(
    *paths: str,
    method: bool | str = True,
    inplace: bool | Callable[..., Any] = False,
    out: bool | str = False,
    aliases: Iterable[str] = (),
    planned: bool = False,
    views: bool = False,
    writes: Sequence[str] = (),
) -> Callable[[Any], Any]:
    """Makes a Python function over tensors an operation.

    `paths` are where it lives below the package (default: its own name at the top); `method` also makes it a
    method; `inplace` adds the form with an underscore (or is that form); `out` gives it an `out=` argument: "exact" if
    that must have the result's dtype, "dtype" if the result is computed in its dtype. `aliases` are further names with the same
    forms. `planned` says that what it does depends on its arguments' dtypes, shapes, strides and numbers alone, so that calls
    alike can be planned (see `sites`); `views` says so of one that gives views of its first argument. It may write to the arguments `writes`.
    """

    def decorate(function: Any) -> Any:
        name = function.__name__.rstrip("_") if function.__name__.endswith("__") else function.__name__
        if out.__class__ is str:
            function.out_rule = out
        wrapped = _overridable(function, bool(out))
        if inplace:  # made before it has plans, which are not its own
            changed = inplace if callable(inplace) else in_place_form(name, wrapped)
            changed.__name__ = changed.__qualname__ = name + "_"
            for form in (name, *aliases):
                methods[form + "_"] = changed
                if not paths or form in paths:
                    functions[form + "_"] = changed
            setattr(ops, name + "_", changed)
        shown = wrapped
        if planned or views:
            shown = with_plans(wrapped, (paths or (name,))[0].rpartition(".")[2], views, writes)
        setattr(ops, name, shown)
        for path in paths or (name, *aliases):
            functions[path] = shown
        for form in (name, *aliases) if method is True else (method,) if method else ():
            methods[form] = shown
        return wrapped

    return decorate


def derivative_name(name: str) -> str:
    """What a node shows for an operation unless told otherwise: LogSoftmaxBackward0 for log_softmax."""
    return "".join(p.title() for p in name.split("_")) + "Backward0"


NO_DERIVATIVE = "torch::autograd::NotImplemented"  # what the node of an operation without a derivative is called


def no_derivative(name: str) -> RuntimeError:
    """The error of a backward pass that meets an operation without a derivative."""
    return RuntimeError(f"derivative for aten::{name} is not implemented")


def relabel(t: Tensor, name: str, op: Any = None) -> Tensor:
    """Gives the node that made a tensor (if any, and if it is one of `op`) another name than its operation's."""
    edge = t._edge
    if edge is not None and (op is None or edge[0].op is op):
        edge[0].label = name
    return t


def labelled(label: str | Callable[..., str | None]) -> Callable[[Any], Any]:
    """Gives the last node of a composite the name that PyTorch's single operation has.

    `label` is that name, or a function of the result and the arguments that gives it (None: as it is).
    """

    def decorate(function: Any) -> Any:
        @functools.wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            out = function(*args, **named)
            for t in out if isinstance(out, tuple) else (out,):
                if isinstance(t, Tensor) and t._edge is not None and not any(t is a for a in args):
                    name = label if isinstance(label, str) else label(t, *args, **named)
                    if name is not None:
                        t._edge[0].label = name
            return out

        return call

    return decorate


def frequent(function: bool = True) -> Callable[[Any], Any]:
    """Like `public`, for methods that are called often: they ask `modes.overrides` themselves, without a wrapper."""

    def decorate(method: Any) -> Any:
        name = method.__name__
        expose(name, method, None)
        if function:
            public(name, method=False)(method)
            setattr(ops, name, method)
        return method

    return decorate


def exact_out(function: Any) -> Any:
    """Says that an `out=` that the function is called with must have the result's dtype."""
    function.out_rule = "exact"
    return function


def out_dtypes(text: str, also: tuple[Any, ...] = (), of: Callable[..., bool] | None = None) -> Callable[[Any], Any]:
    """Says that an `out=` must have the result's dtype (or one of `also`), with PyTorch's words for this function, which
    are told the dtypes `out` and `made`; `of` says of which arguments."""

    def decorate(function: Any) -> Any:
        function.out_rule = text, also, of
        return function

    return decorate


def _overridable(function: Any, out: bool = False) -> Any:
    """A function that others may take over, and whose errors are PyTorch's; with an argument `out` if so said."""

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        if modes.overrides:
            result = overridden(call, args, named)
            if result is not NotImplemented:
                return result
        if out and "out" in named:
            target = named.pop("out")
            if target is not None and not isinstance(target, Tensor):
                taken = ask_foreign(call, args, {**named, "out": target})
                if taken is not NotImplemented:
                    return taken
            if target is not None:
                return into_out(target, function, args, _numpy_named(function, named))
        try:
            return function(*args, **named)
        except (AttributeError, TypeError):
            return _for_foreign(call, args, named)
        except (MemoryError, ValueError) as error:
            raise (memory_problem(error) or error) from None
        except (RuntimeError, IndexError) as error:
            refuse_foreign(call, args, named)
            teach(error)
            raise

    if out:
        call.takes_out = True  # type: ignore[attr-defined]
    return call


# Other orders of arguments that PyTorch takes: name -> function of the arguments that gives today's, or None.
older_forms: dict[str, Callable[[tuple[Any, ...]], tuple[tuple[Any, ...], dict[str, Any]] | None]] = {}
_NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input", "x2": "other"}


def older_form(name: str, factor: Any = None, operands: Sequence[Any] = (None,)) -> Any:
    """Says that a call has an order of arguments that PyTorch will drop; gives the factor, before one operand, back."""
    if len(operands) != 1:
        raise TypeError(f"{name}() takes 2 positional arguments but {2 + len(operands)} were given")
    warn_user(f"This overload of {name} is deprecated: give the factors by their names, after the tensors.")
    return factor


def _numpy_named(function: Any, named: dict[str, Any]) -> dict[str, Any]:
    """Named arguments whose NumPy names are replaced by PyTorch's, where the function does not have them."""
    return named if _NUMPY_NAMES.keys().isdisjoint(named) else numpy_named(parameter_names(function), named)


def numpy_named(own: Sequence[str], named: dict[str, Any]) -> dict[str, Any]:
    """The same for a function with these names."""
    return {name if name in own else _NUMPY_NAMES.get(name, name): value for name, value in named.items()}


def numpy_names_of(own: Sequence[str]) -> dict[str, str]:
    """NumPy's names of parameters, one of each at most, and those that they stand for."""
    found = {theirs: name for name, theirs in reversed(_NUMPY_NAMES.items()) if theirs in own and name not in own}
    return {name: theirs for theirs, name in found.items()}


def ask_foreign(function: Any, args: Any, named: Any) -> Any:
    """What an argument that is no tensor gives for a call (`__torch_function__`); NotImplemented if there is none such."""
    for a in flat((*flat(args), *named.values())):
        if not isinstance(a, Tensor) and hasattr(a, "__torch_function__"):
            return overridden(function, args, named)
    return NotImplemented


def _for_foreign(function: Any, args: Any, named: Any) -> Any:
    """A call that failed: an argument that is no tensor may know what to do (`__torch_function__`)."""
    if not modes.overrides:
        result = ask_foreign(function, args, named)
        if result is not NotImplemented:
            return result
    if not _NUMPY_NAMES.keys().isdisjoint(named):  # PyTorch also takes the names that NumPy has for arguments
        return function(*args, **{_NUMPY_NAMES.get(name, name): value for name, value in named.items()})
    if function.__name__ in older_forms and (form := older_forms[function.__name__](args)) is not None:
        if "out" not in form[1]:  # which PyTorch takes by place in functions that it has in Python
            older_form(function.__name__)
        return function(*form[0], **form[1], **named)
    error = sys.exc_info()[1]
    if isinstance(error, AttributeError) and not isinstance(error.obj, Tensor):
        refuse_foreign(function, args, named)
        if any(error.obj is a for a in (*args, *named.values())):
            kind = type(error.obj).__name__
            raise TypeError(f"{function.__name__}(): an argument has the wrong type, {kind}") from None
    if isinstance(error, TypeError) and f"{function.__name__}() missing" in str(error):  # in PyTorch's words
        text = str(error).replace(" argument:", " arguments:").replace("'", '"')
        raise TypeError(text[text.index(function.__name__) :]) from None
    if isinstance(error, TypeError):
        teach(error)
    raise  # the error that is being handled


def refuse_foreign(function: Any, args: Any, named: Any) -> None:
    """Says of a call that failed which argument is no tensor, though the function declares it as one: so functions need not look."""
    names = parameter_names(inspect.unwrap(function))
    for name, value in (*zip(names, args), *named.items()):
        optional = _OPTIONAL.get(function.__annotations__.get(name))
        if optional is not None and not isinstance(value, Tensor) and not (optional and value is None):
            label, position = function.__name__.removeprefix("functional_"), names.index(name) + 1
            kind = type(value).__name__
            raise TypeError(f"{label}(): argument '{name}' (position {position}) must be Tensor, not {kind}") from None


_OPTIONAL = {"Tensor": False, "Tensor | None": True}  # what functions declare


def public_form(op: Any) -> Any:
    """The function that programs know a record by; None if it works inside one that asks for overrides itself."""
    public = getattr(op, "public", op.call)
    if public is not op.call or hasattr(op.call, "public"):
        return public
    found = functions.get(op.name) or functions.get(f"nn.functional.{op.name}") or op.call
    return None if hasattr(found, "__wrapped__") else found


def flat(args: Any) -> Iterator[Any]:
    """Arguments, those in lists and tuples too."""
    for a in args:
        if isinstance(a, list):
            yield from list.__iter__(a)  # whatever a subclass makes of it
        elif isinstance(a, tuple):
            yield from a
        else:
            yield a


def quick(fast: Any, named_too: bool = False) -> Callable[[Any], Any]:
    """Puts a short path before a public function: `fast` runs without modes and (unless it takes these, too) named arguments, looks at
    its operands' `_k` itself, and may return NotImplemented."""

    def decorate(slow: Any) -> Any:
        @functools.wraps(slow)
        def call(*args: Any, **named: Any) -> Any:
            if named and not named_too:
                return slow(*args, **named)
            result = NotImplemented if modes.on else fast(*args, **named)
            return slow(*args, **named) if result is NotImplemented else result

        return put_before(slow, call)

    return decorate


def put_before(slow: Any, call: Any) -> Any:
    """Has a public function go by another one, which knows it."""
    if hasattr(slow, "site"):  # which is what the tables hold
        slow.site.go_by(call)
        return call
    slow.public = call
    for table in (functions, methods, ops.__dict__):
        for name in [n for n, f in list(dict.items(table)) if f is slow]:
            table[name] = call
    return call


def parameter_names(function: Any) -> list[str]:
    """The names of a function's parameters; read from its code, which is many times faster than `inspect`."""
    if hasattr(function, "__signature__") or not hasattr(function, "__code__"):
        return list(inspect.signature(function).parameters)
    code = function.__code__
    return list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


def is_tensor(obj: Any, /) -> bool:
    """Whether an object is a tensor."""
    return isinstance(obj, Tensor)
