"""Names for sizes that change between calls."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any, NamedTuple

from .._dynamo.exc import UserError
from .._tensor import Tensor
from ..fx.experimental.symbolic_shapes import ConstraintViolationError
from ..utils._pytree import SUPPORTED_NODES, tree_flatten, tree_leaves, tree_unflatten

__all__ = [
    "AdditionalInputs",
    "Constraint",
    "Dim",
    "ShapesCollection",
    "dims",
    "refine_dynamic_shapes_from_suggested_fixes",
]


class _DimHint:
    """What may be said of a size instead of naming it; a call adds limits."""

    def __init__(self, name: str, min: int | None = None, max: int | None = None) -> None:
        self.name, self.min, self.max = name, min, max

    def __call__(self, min: int | None = None, max: int | None = None) -> _DimHint:
        if self.name == "STATIC" or self.min is not None or self.max is not None:
            raise TypeError(f"'{type(self).__name__}' object is not callable")
        if min is not None and min < 0:
            raise AssertionError(f"min must be non-negative, got {min}")
        if max is not None and max < (min or 0):
            raise AssertionError(f"min must be <= max, got min={min}, max={max}")
        return _DimHint(self.name, min, max)

    def __repr__(self) -> str:
        limits = [f"{k}={v}" for k, v in (("min", self.min), ("max", self.max)) if v is not None]
        return f"DimHint({', '.join([self.name, *limits])})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _DimHint) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


class Dim:
    """The name of a size, with its bounds; sizes that follow from it are written `2 * batch + 1`.

    >>> import flambeau as torch
    >>> batch = torch.export.Dim("batch", min=1, max=64)
    >>> batch, 2 * batch + 1
    (Dim('batch', min=1, max=64), 2*batch + 1)
    """

    AUTO, STATIC, DYNAMIC = _DimHint("AUTO"), _DimHint("STATIC"), _DimHint("DYNAMIC")

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        self.min, self.max = 0 if min is None else min, max
        if max is not None and max <= self.min:
            raise AssertionError(f"Cannot create Dim with inconsistent min={min}, max={max}")
        if not name.isidentifier():
            raise AssertionError(f"Dim name must be a valid identifier, got {name}")
        self.__name__ = name

    def _linear(self, factor: int, offset: int) -> _DerivedDim:
        return _DerivedDim(self, factor, offset)

    def __mul__(self, other: Any) -> _DerivedDim:
        if type(other) is not int or other <= 0:
            raise NotImplementedError(
                f"Attempted to multiply {self} with {other}, where a positive integer was expected. "
                "(Only increasing linear operations with integer coefficients are supported.)"
            )
        return self._linear(other, 0)

    __rmul__ = __mul__

    def __add__(self, other: Any) -> _DerivedDim:
        if type(other) is not int:
            raise NotImplementedError(
                f"Attempted to add {other} to {self}, where an integer was expected. "
                "(Only increasing linear operations with integer coefficients are supported.)"
            )
        return self._linear(1, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> _DerivedDim:
        return self + (-other if type(other) is int else other)

    def __rsub__(self, other: Any) -> _DerivedDim:
        raise NotImplementedError(f"Attempted to negate {self}. (Only increasing linear operations are supported.)")

    def __repr__(self) -> str:
        bounds = [f"min={self.min}"] + ([] if self.max is None else [f"max={self.max}"])
        return f"Dim({self.__name__!r}, {', '.join(bounds)})"


class _DerivedDim(Dim):
    """A size that follows from a named one."""

    def __init__(self, root: Dim, factor: int, offset: int) -> None:
        if isinstance(root, _DerivedDim):
            factor, offset, root = factor * root.factor, factor * root.offset + offset, root.root
        self.root, self.factor, self.offset = root, factor, offset
        self.min = factor * root.min + offset
        self.max = None if root.max is None else factor * root.max + offset
        text = root.__name__ if factor == 1 else f"{factor}*{root.__name__}"
        self.__name__ = text if not offset else f"{text} {'+' if offset > 0 else '-'} {abs(offset)}"

    def __repr__(self) -> str:
        return self.__name__


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Several names at once.

    >>> import flambeau as torch
    >>> torch.export.dims("height", "width", min=2)
    (Dim('height', min=2), Dim('width', min=2))
    """
    return tuple(Dim(name, min=min, max=max) for name in names)


class Place(NamedTuple):
    """A dimension of an argument: number of the leaf, dimension, and how the program calls it."""

    leaf: int
    dim: int
    text: str


class Wish(NamedTuple):
    """What is said of a size that may change: factor * name + offset; `soft` if it may also stay as it is."""

    name: str | None
    factor: int
    offset: int
    low: int
    high: int | None
    soft: bool
    shown: str


class ShapesCollection:
    """Shapes of arguments, given tensor by tensor.

    >>> import flambeau as torch
    >>> x = torch.ones(4, 2)
    >>> shapes = ShapesCollection()
    >>> shapes[x] = {0: Dim("batch")}
    >>> shapes.dynamic_shapes(torch.nn.ReLU(), (x,))
    {'input': {0: Dim('batch', min=0)}}
    """

    def __init__(self) -> None:
        self._shapes: dict[int, Any] = {}
        self._kept: list[Any] = []

    def __setitem__(self, t: Any, shape: Any) -> None:
        if not isinstance(t, Tensor):
            raise AssertionError(f"Cannot assign shape to non-tensor type {type(t)}")
        self._shapes[id(t)] = shape
        self._kept.append(t)

    def __getitem__(self, t: Any) -> Any:
        return self._shapes.setdefault(id(t), {})

    def __len__(self) -> int:
        return len(self._shapes)

    def dynamic_shapes(self, m: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> dict[str, Any]:
        """The shapes by the names of arguments."""
        named = dict(kwargs or {})
        names = argument_names(m, args, named)
        return {name: self._found(value) for name, value in zip(names, (*args, *named.values()))}

    def _found(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self._shapes.get(id(value))
        if isinstance(value, dict):
            return {k: self._found(v) for k, v in value.items()}
        return [self._found(v) for v in value] if isinstance(value, (list, tuple)) else None


class AdditionalInputs:
    """More examples of arguments: sizes that differ among them are those that change.

    >>> import flambeau as torch
    >>> class Sum(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x.sum(1)
    >>> examples = torch.export.AdditionalInputs()
    >>> examples.add((torch.ones(3, 2),))
    >>> examples.dynamic_shapes(Sum(), (torch.ones(4, 2),))
    {'x': (DimHint(DYNAMIC), None)}
    """

    def __init__(self) -> None:
        self._examples: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def add(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> None:
        """Adds an example."""
        if type(args) is not tuple:
            raise AssertionError(f"Representative args {args} must be a tuple")
        if kwargs is not None and type(kwargs) is not dict:
            raise AssertionError(f"Representative kwargs {kwargs} must be None or a dict")
        self._examples.append((args, dict(kwargs or {})))

    def dynamic_shapes(self, m: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> dict[str, Any]:
        """The shapes by the names of arguments."""
        every = [(args, dict(kwargs or {})), *self._examples]
        trees = [tree_flatten([*one, *named.values()]) for one, named in every]
        if any(spec != trees[0][1] for _, spec in trees):
            raise ValueError("The examples of arguments differ in their structure; expected the same one in all")
        found = [_compared(values) for values in zip(*(leaves for leaves, _ in trees))]
        return dict(zip(argument_names(m, *every[0]), tree_unflatten(found, trees[0][1])))

    def verify(self, ep: Any) -> None:
        """Raises unless a program takes all examples."""
        run = ep.module()
        for args, named in self._examples:
            run(*args, **named)


def _compared(values: tuple[Any, ...]) -> Any:
    """What the examples of one argument say of its sizes."""
    kinds = {type(value) for value in values}
    if all(isinstance(value, Tensor) for value in values):
        if len({value.dim() for value in values}) > 1:
            raise ValueError(
                f"The following inputs were found to have differing ranks, so they cannot be marked as dynamic: {values}."
            )
        sizes = zip(*(tuple(value.shape) for value in values))
        return tuple(Dim.DYNAMIC if len(set(size)) > 1 else None for size in sizes)
    if len(kinds) > 1:
        raise ValueError(
            f"The following inputs were found to have differing types, so they cannot be marked as dynamic: {values}."
        )
    if all(value == values[0] for value in values):
        return None
    if kinds != {int}:
        raise ValueError(
            f"The following inputs were found to have differing values, but they cannot be marked as dynamic: {values}."
        )
    return Dim.DYNAMIC


Constraint = Dim | _DimHint  # what may be said of a size; for annotations


def refine_dynamic_shapes_from_suggested_fixes(msg: str, dynamic_shapes: Any) -> Any:
    """Shapes with the fixes in an error of `export`: `name = Dim('name', max=5)`, `name = 4`, `name = 2*other + 1`.

    >>> dx = Dim("dx")
    >>> refine_dynamic_shapes_from_suggested_fixes("Suggested fixes:\\n  dx = Dim('dx', max=5)\\n", {"x": {0: dx}})
    {'x': {0: Dim('dx', min=0, max=5)}}
    """
    _, told, text = msg.partition("Suggested fixes:")
    if not told:
        raise UserError(
            "Suggested fixes not found in error message given to refine_dynamic_shapes_from_suggested_fixes()"
        )
    known = {leaf.__name__: leaf for leaf in _dims_in(dynamic_shapes)}
    for leaf in list(known.values()):
        if isinstance(leaf, _DerivedDim):
            known.setdefault(leaf.root.__name__, leaf.root)
    fixes: dict[str, Any] = {}
    written = re.findall(r"^\s*(\w+) = (.+?)\s*$", text, re.MULTILINE)
    for name, value in sorted(
        written, key=lambda fix: _LINEAR.fullmatch(fix[1]) is not None
    ):  # names before what follows
        made, linear = _DIM.fullmatch(value), _LINEAR.fullmatch(value)
        if made:
            bounds = {k: int(v) for k, v in re.findall(r"(min|max)=(\d+)", made[1])}
            fixes[name] = Dim(name, **bounds)
        elif value.isdigit():
            fixes[name] = int(value)
        elif linear and linear[2]:
            root = fixes.get(linear[2]) or known.get(linear[2]) or Dim(linear[2])
            offset = int((linear[3] or "0").replace(" ", ""))
            fixes[name] = int(linear[1] or 1) * root + offset if offset else int(linear[1] or 1) * root
    return _refined(dynamic_shapes, fixes)


_DIM = re.compile(r"Dim\('\w+'(.*)\)")
_LINEAR = re.compile(r"(?:(\d+)\*)?([A-Za-z_]\w*)(\s*[+-]\s*\d+)?")


def _dims_in(shapes: Any) -> list[Dim]:
    if isinstance(shapes, Dim):
        return [shapes]
    inner = shapes.values() if isinstance(shapes, dict) else shapes if isinstance(shapes, (list, tuple)) else ()
    return [found for one in inner for found in _dims_in(one)]


def _refined(shapes: Any, fixes: dict[str, Any]) -> Any:
    if isinstance(shapes, _DerivedDim):
        if shapes.__name__ in fixes:
            return fixes[shapes.__name__]
        root = fixes.get(shapes.root.__name__, shapes.root)
        return (
            shapes.factor * root + shapes.offset
            if isinstance(root, int)
            else _DerivedDim(root, shapes.factor, shapes.offset)
        )
    if isinstance(shapes, Dim):
        return fixes.get(shapes.__name__, shapes)
    if isinstance(shapes, dict):
        return {key: _refined(value, fixes) for key, value in shapes.items()}
    return type(shapes)(_refined(value, fixes) for value in shapes) if isinstance(shapes, (list, tuple)) else shapes


def argument_names(root: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """The names of the arguments of a call, in order."""
    parameters = inspect.signature(root.forward).parameters.values()
    placed = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "arg")
    more = range(len(args) - len(placed))
    return [*placed[: len(args)], *[f"{rest}_{i}" for i in more], *kwargs]


def _collected(given: Any, root: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What is said of `*args` as a tuple and of `**kwargs` as a dict, argument by argument; what else is said as it is."""
    parameters = inspect.signature(root.forward).parameters.values()
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    more = next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), None)
    if isinstance(given, (tuple, list)):  # in the order of the parameters
        bound = inspect.signature(root.forward).bind(*args, **kwargs).arguments
        if len(given) != len(bound):
            return given
        given = dict(zip(bound, given))
    if not isinstance(given, dict) or not ({rest, more} & given.keys()):
        return given
    flat = {name: size for name, size in given.items() if name not in (rest, more)}
    if isinstance(given.get(rest), (tuple, list)):
        flat.update((f"{rest}_{i}", size) for i, size in enumerate(given[rest]))
    elif rest in given:
        flat.update((name, None) for name in argument_names(root, args, {}) if name.startswith(f"{rest}_"))
    if more in given:
        flat.update(given[more] or dict.fromkeys(set(kwargs) - flat.keys()))
    return flat


def wishes_of(given: Any, root: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[Place, Wish]]:
    """All sizes that may change, by what `dynamic_shapes` says of arguments."""
    names, values = argument_names(root, args, kwargs), [*args, *kwargs.values()]
    given = _collected(given, root, args, kwargs)
    if isinstance(given, dict):
        if set(given) != set(names):
            raise UserError(
                f"When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg names {names} of `inputs`, but here "
                f"they are {list(given)}. Alternatively, you could also ignore arg names entirely and specify `dynamic_shapes` as a "
                "list/tuple matching `inputs`."
            )
        given = [given[name] for name in names]
    if not isinstance(given, (list, tuple)) or len(given) != len(values):
        raise UserError(
            f"Expected `dynamic_shapes` to be a list/tuple with {len(values)} entries, one for each argument, or a dict; got {given!r}"
        )
    found: list[tuple[Place, Wish]] = []
    first = 0
    for name, value, spec in zip(names, values, given):
        _walk(value, spec, f"L['{name}']", first, found)
        first += len(tree_leaves(value))
    return found


def _walk(value: Any, spec: Any, text: str, leaf: int, found: list[tuple[Place, Wish]]) -> None:
    if spec is None:
        return
    if isinstance(value, Tensor):
        _dimensions(value, spec, text, leaf, found)
        return
    if type(value) is int and isinstance(spec, (_DimHint, Dim)):
        if isinstance(spec, Dim):
            raise ValueError(
                "Unable to specify input integers as dynamic through named Dims. Please use Dim.AUTO/DYNAMIC instead."
            )
        place = Place(leaf, -1, text)
        wish = _wish(spec, place)
        if wish is not None:
            found.append((place, wish))
        return
    node = SUPPORTED_NODES.get(type(value))
    if hasattr(type(value), "_fields"):  # a named tuple
        value, spec = tuple(value), tuple(spec) if isinstance(spec, type(value)) else spec
        node = SUPPORTED_NODES[tuple]
    if node is None:
        raise UserError(
            f"Cannot associate shape {spec!r} at `dynamic_shapes{text[1:]}` to non-tensor type {type(value)}"
        )
    children, context = node.flatten_fn(value)
    keys = list(context) if isinstance(value, dict) else list(range(len(children)))
    if dataclasses.is_dataclass(value):
        keys = [f.name for f in dataclasses.fields(value)]
        spec = spec if isinstance(spec, (dict, list, tuple)) else [getattr(spec, k) for k in keys]
    specs = [spec[k] for k in keys] if isinstance(spec, dict) and set(spec) == set(keys) else spec
    if not isinstance(specs, (list, tuple)) or len(specs) != len(children):
        raise UserError(f"Detected mismatch between the structure of `inputs` and `dynamic_shapes` at {text}: {spec!r}")
    for key, child, part in zip(keys, children, specs):
        _walk(child, part, f"{text}[{key!r}]", leaf, found)
        leaf += len(tree_leaves(child))


def _dimensions(t: Tensor, spec: Any, text: str, leaf: int, found: list[tuple[Place, Wish]]) -> None:
    if isinstance(spec, (list, tuple)):
        if len(spec) != t.dim():
            raise UserError(
                f"Expected dynamic shape spec {spec!r} of {text} to have the same length as its shape {list(t.shape)}"
            )
        spec = dict(enumerate(spec))
    if not isinstance(spec, dict):
        raise UserError(
            f"Unexpected input tensor shape {spec!r} specified for {text}: expected a dict or a list of sizes"
        )
    for dim, size in spec.items():
        if not isinstance(dim, int) or not -t.dim() <= dim < t.dim():
            raise IndexError(
                f"dynamic_shapes: {text} has {t.dim()} dimensions, and none is {dim}: list index out of range"
            )
        dim %= max(t.dim(), 1)
        place = Place(leaf, dim, f"{text}.size()[{dim}]")
        if isinstance(size, int) and size != t._array.shape[dim]:
            raise ConstraintViolationError(
                f"Static shape constraint of {size} does not match input size of {t._array.shape[dim]}, for {place.text}"
            )
        wish = _wish(size, place)
        if wish is not None:
            found.append((place, wish))


def _wish(size: Any, place: Place) -> Wish | None:
    if size is None or isinstance(size, int):
        return None
    if isinstance(size, _DimHint):
        if size.name == "STATIC":
            return None
        low = 2 if size.min is None else max(2, size.min)
        return Wish(None, 1, 0, low, size.max, size.name == "AUTO", repr(size))
    if isinstance(size, _DerivedDim):
        return Wish(size.root.__name__, size.factor, size.offset, size.root.min, size.root.max, False, size.__name__)
    if isinstance(size, Dim):
        return Wish(size.__name__, 1, 0, size.min, size.max, False, size.__name__)
    raise UserError(f"Unexpected dimension mapped to index {place.dim} in `dynamic_shapes` of {place.text}: {size!r}")
