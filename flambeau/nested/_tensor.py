"""The class of nested tensors: samples of different sizes, and how operations reach them."""

from __future__ import annotations

import copy
import functools
import itertools
from typing import Any

from .._core import layouts
from .._core.dtypes import int64
from .._interception.overrides import DisableTorchFunctionSubclass
from .._library.schema_texts import schemas_of
from .._ops.records.pointwise_op import Pointwise
from .._ops.registry import methods, ops, records
from .._tensor import Tensor
from .._tensor.methods import OPERATORS
from ..autograd import backward
from . import _gradients

# Arguments that name dimensions. A nested tensor's count the batch, those of its samples do not.
_DIMENSIONS = frozenset(
    ("dim", "dim0", "dim1", "dim2", "dims", "axis", "start_dim", "end_dim", "source", "destination")
)
# What makes one of all elements though its schema has no dimension that may be left out.
_OF_ALL = frozenset(("argwhere", "nonzero", "ravel", "trace", "unique", "vector_norm"))
# With another number before the dimension.
_AFTER_A_NUMBER = frozenset(("norm", "vector_norm", "quantile", "nanquantile", "repeat_interleave"))
# Functions that draw for the elements of all samples at once.
_DRAWN = frozenset(("rand_like", "randn_like", "randint_like", "bernoulli", "dropout"))


def make(parts: list[Tensor], layout: Any) -> NestedTensor:
    """A nested tensor of these samples."""
    for i, t in enumerate(parts):
        if t.ndim != parts[0].ndim:
            raise RuntimeError(
                "All Tensors given to nested_tensor must have the same dimension. "
                f"Found dimension {t.ndim} for Tensor at index {i} and dimension {parts[0].ndim} for Tensor at index 0."
            )
    with DisableTorchFunctionSubclass():
        plain = ops.empty(0, dtype=parts[0].dtype, device=parts[0].device) if parts else ops.empty(0)
        made = ops.as_subclass(plain, NestedTensor)
    made.__dict__.update(parts=list(parts), nested_layout=layout)
    return made


class NestedTensor(Tensor):
    """A batch whose samples have different sizes."""

    by_functions = True  # operators of `torch.ops.aten` come as the functions that they are

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in ("__get__", "__set__"):  # properties that say the same of all samples: dtype, device
            with DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        if name == "is_same_size":  # also asked of a plain tensor
            return _is_same_size(*args)
        if name == "grad":
            return _gradients.grad(func, make, *args, **kwargs)
        if name == "backward" and not isinstance(args[0], NestedTensor):  # tensors, some of them nested
            return _gradients.backward(func, *args, **kwargs)
        own = _METHODS.get(name)
        if own is not None and isinstance(args[0], NestedTensor):
            return own(*args, **kwargs)
        if name in _JOINING:
            return _JOINING[name](*args, **kwargs)
        if name in _DRAWN:
            return _drawn(func, *args, **kwargs)
        return _each(func, name, args, kwargs)

    def __len__(self) -> int:
        return len(self.__dict__["parts"])

    def __iter__(self) -> Any:
        return iter(_parts(self))

    def __deepcopy__(self, memo: dict[int, Any]) -> NestedTensor:
        if id(self) not in memo:
            memo[id(self)] = make(copy.deepcopy(_parts(self), memo), self.__dict__["nested_layout"])
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        parts = _parts(self)
        if self.__dict__["nested_layout"] is not layouts.strided or not parts:
            return make, (parts, self.__dict__["nested_layout"])
        from .._serialization.rebuild import _rebuild_nested_tensor  # it makes what is defined here

        dense = [p.detach().contiguous() for p in parts]
        places = [list(p.shape) for p in dense], [list(p.stride()) for p in dense]
        counts = _starts(p.numel() for p in dense[:-1])
        table = [ops.tensor(list(numbers), dtype=int64) for numbers in (*places, counts)]
        buffer = ops.cat([p.flatten() for p in dense])
        return _rebuild_nested_tensor, (buffer.requires_grad_(any(p.requires_grad for p in parts)), *table)

    def __repr__(self) -> str:  # type: ignore[override]
        parts = _parts(self)
        if self.__dict__["nested_layout"] is layouts.jagged:
            shown = ", ".join(map(str, _size(self)))
            return f"NestedTensor(size=({shown}), offsets={_offsets(self)}, contiguous=True)"
        lines = ["  " + repr(t).replace("\n", "\n  ") for t in parts]
        return "nested_tensor([\n" + ",\n".join(lines) + "\n])"


def _parts(t: Tensor) -> list[Tensor]:
    return t.__dict__["parts"]


def _backward(
    t: NestedTensor, gradient: Any = None, retain_graph: Any = None, create_graph: bool = False, inputs: Any = None
) -> None:
    _gradients.backward(backward, t, gradient, retain_graph=retain_graph, create_graph=create_graph, inputs=inputs)


def _is_same_size(t: Tensor, other: Tensor) -> bool:
    if not (isinstance(t, NestedTensor) and isinstance(other, NestedTensor)):
        raise RuntimeError("Expected both self and other to be nested tensors.")
    return [p.shape for p in _parts(t)] == [p.shape for p in _parts(other)]


def _each(func: Any, name: str, args: Any, kwargs: Any) -> Any:
    """Runs a function on each sample; plain tensors are for all of them."""
    if (
        _is_of_all(name)
        and not any(key in kwargs for key in ("dim", "axis"))
        and not any(_is_dimension(a) for a in args[2 if name in _AFTER_A_NUMBER else 1 :])
    ):
        raise NotImplementedError(
            f"{name}: not implemented for all elements of a nested tensor; ask its values() or name a dimension"
        )
    nested = [a for a in _flat(args, kwargs) if isinstance(a, NestedTensor)]
    count = len(_parts(nested[0]))
    if any(len(_parts(a)) != count for a in nested):
        raise RuntimeError(f"{name}: nested tensors of different batch sizes: {[len(_parts(a)) for a in nested]}")
    rank = _rank(nested[0])
    args, kwargs = _without_batch(name, args, kwargs, rank)
    broadcasts = name == "matmul" or isinstance(records.get(OPERATORS.get(name, name).removesuffix("_")), Pointwise)

    def sample(a: Any, i: int) -> Any:
        if isinstance(a, NestedTensor):
            return _parts(a)[i]
        if broadcasts and isinstance(a, Tensor) and a.ndim >= rank:
            return _share(a, nested[0], i)
        if isinstance(a, (list, tuple)) and any(
            type(b) is str for b in a
        ):  # the last sizes of the nested tensor: those of the sample
            return tuple(_parts(nested[0])[i].shape[-len(a) :])
        return type(a)(sample(b, i) for b in a) if type(a) in (list, tuple) else a

    outs = [func(*[sample(a, i) for a in args], **{k: sample(v, i) for k, v in kwargs.items()}) for i in range(count)]
    layout = nested[0].__dict__["nested_layout"]
    if all(o is p for o, p in zip(outs, _parts(nested[0]))) and outs:  # in place, or nothing was to be done
        return nested[0]
    if all(isinstance(o, Tensor) for o in outs):
        return make(outs, layout)
    if all(isinstance(o, bool) for o in outs):
        return all(outs)
    if outs and isinstance(outs[0], (tuple, list)):
        return type(outs[0])(make([o[j] for o in outs], layout) for j in range(len(outs[0])))
    return outs


def _share(plain: Tensor, t: NestedTensor, i: int) -> Tensor:
    """What the sample meets of a plain tensor that has the batch as its first dimension: as much as the sample is long, if it is padded."""
    parts = _parts(t)
    if plain.ndim > _rank(t) or plain.shape[0] not in (1, len(parts)):
        raise RuntimeError(
            f"a tensor of shape {list(plain.shape)} cannot be broadcast to a nested one of size {_size(t)}"
        )
    share = plain[min(i, plain.shape[0] - 1)]
    for dim in _ragged(t):
        if share.shape[dim - 1] == max(p.shape[dim - 1] for p in parts):
            share = share.narrow(dim - 1, 0, parts[i].shape[dim - 1])
    return share


def _drawn(func: Any, t: NestedTensor, *args: Any, **kwargs: Any) -> NestedTensor:
    """Runs a random function on the elements of all samples, which lie one after the other."""
    kwargs.pop("layout", None)
    parts = _parts(t)
    if not parts:
        return t
    whole = func(ops.cat([p.flatten() for p in parts]), *args, **kwargs)
    pieces = ops.split(whole, [p.numel() for p in parts])
    return make([piece.reshape(p.shape) for piece, p in zip(pieces, parts)], t.__dict__["nested_layout"])


def _flat(args: Any, kwargs: Any) -> list[Any]:
    found: list[Any] = []
    for a in (*args, *kwargs.values()):
        found += a if isinstance(a, (list, tuple)) else [a]
    return found


def _is_dimension(a: Any) -> bool:
    return (isinstance(a, int) and not isinstance(a, bool)) or (
        isinstance(a, (list, tuple)) and all(map(_is_dimension, a))
    )


@functools.cache
def _is_of_all(name: str) -> bool:
    """Whether a function makes one of all elements if no dimension is named: those of a nested tensor are not in one tensor."""
    if name in _OF_ALL or name.startswith("squeeze"):  # which leaves out extents of 1 of each sample
        return name in _OF_ALL
    declared = [[a.declared for a in s.arguments if a.name in ("dim", "dims")] for s in schemas_of(name).values()]
    optional = any(d.startswith("int") and d.endswith("?") for dims in declared for d in dims)
    return optional or (any(declared) and not all(declared))


@functools.cache
def _places(name: str) -> tuple[frozenset[str], frozenset[int], dict[str, int]]:
    """Which arguments of a function name dimensions, where they stand if they are not given by name, and those that are the first by
    themselves."""
    named, places, first = set(), set(), {}
    for schema in schemas_of(name).values():
        for i, argument in enumerate(schema.arguments):
            if argument.name in _DIMENSIONS and argument.declared.startswith(
                "int"
            ):  # `tile` calls its counts so: of SymInt[]
                named.add(argument.name)
                if not argument.kwarg_only:
                    places.add(i)
                if argument.default == 0 and argument.has_default_value():
                    first[argument.name] = i
    return frozenset({*named, "axis"} if "dim" in named else named), frozenset(places), first


def _without_batch(name: str, args: Any, kwargs: Any, rank: int) -> tuple[Any, Any]:
    """Arguments with dimensions that count from the first of a sample."""
    named, places, first = _places(name)
    if not named:
        return args, kwargs
    for key, place in first.items():
        if place >= len(args) and key not in kwargs and "axis" not in kwargs:
            raise RuntimeError(
                f"{name}(): not supported for NestedTensor on dim=0, which is the batch; unbind it first"
            )

    def shifted(dim: Any) -> Any:
        if isinstance(dim, (list, tuple)):
            return [shifted(n) for n in dim]
        if not isinstance(dim, int) or isinstance(dim, bool):
            return dim
        if dim == 0 or (
            dim == -rank and name not in ("unsqueeze", "stack")
        ):  # to which it is the place behind the batch
            raise RuntimeError(f"{name}: the batch of a nested tensor cannot be named as dimension 0; unbind it first")
        return dim - 1 if dim > 0 else dim

    args = [shifted(a) if i in places else a for i, a in enumerate(args)]
    return args, {k: shifted(v) if k in named else v for k, v in kwargs.items()}


# -- reductions --------------------------------------------------------------------------------------------------------


def _reduction(name: str) -> Any:
    """A reduction of a nested tensor: over everything, the ragged dimension, dimensions of samples, or all samples."""

    def reduce(t: NestedTensor, dim: Any = None, keepdim: bool = False, **named: Any) -> Any:
        function, rank = getattr(ops, name), _rank(t)
        if isinstance(dim, Tensor):  # the larger (or smaller) of two tensors
            return _each(function, name, (t, dim), named)
        options = {"keepdim": True, **named} if keepdim else named
        given = (dim,) if isinstance(dim, int) else None if dim is None else tuple(dim)
        dims = None if given is None else {d % rank for d in given}
        if dims is None or dims == set(range(rank)):
            whole = _values(t) if t.__dict__["nested_layout"] is layouts.jagged or dims is None else ops.cat(_parts(t))
            made = function(whole, **named)
            return ops.reshape(made, (1,) * rank) if keepdim else made
        ragged = _ragged(t)
        if 0 in dims and not dims.issuperset(ragged):
            raise RuntimeError(
                f"{name}(): reducing along the batch dimension but not the ragged dimension is not supported for nested tensors"
            )
        if 0 in dims:
            made = function(
                ops.cat(_parts(t), ragged[0] - 1), _one_or_many(given, sorted(d - 1 for d in dims if d)), **options
            )
            return ops.unsqueeze(made, 0) if keepdim else made
        if not dims.isdisjoint(ragged) and len(dims) > 1:
            raise RuntimeError(
                f"{name}(): reducing along a ragged and non-batch dimension is not supported for nested tensors"
            )
        outs = [function(p, _one_or_many(dim, sorted(d - 1 for d in dims)), **options) for p in _parts(t)]
        if isinstance(outs[0], tuple):  # values and their places
            return type(outs[0])(*[_joined(t, [o[i] for o in outs], dims, ragged) for i in range(len(outs[0]))])
        return _joined(t, outs, dims, ragged)

    reduce.__name__ = name
    return reduce


def _one_or_many(dim: Any, dims: list[int]) -> Any:
    return dims[0] if isinstance(dim, int) or len(dims) == 1 else dims


def _joined(t: NestedTensor, outs: list[Tensor], dims: set[int], ragged: list[int]) -> Tensor:
    """The samples' results: a plain tensor once the ragged dimension is gone."""
    return ops.stack(outs) if dims.issuperset(ragged) else make(outs, t.__dict__["nested_layout"])


# -- what a nested tensor knows of itself -----------------------------------------------------------------------------


def _size(t: NestedTensor) -> tuple[Any, ...]:
    parts = _parts(t)
    rank = parts[0].ndim if parts else 0
    sizes = []
    for i in range(rank):
        found = {int(p.shape[i]) for p in parts}
        sizes.append(found.pop() if len(found) == 1 else "j1")
    return (len(parts), *sizes)


def _ragged(t: NestedTensor) -> list[int]:
    """The dimensions whose sizes differ from sample to sample."""
    return [i for i, n in enumerate(_size(t)) if n == "j1"] or [1]


def _rank(t: NestedTensor) -> int:
    return (_parts(t)[0].ndim if _parts(t) else 0) + 1


def _one_size(t: NestedTensor, dim: int | None = None) -> Any:
    sizes = _size(t)
    if dim is None:
        if "j1" in sizes and t.__dict__["nested_layout"] is layouts.strided:
            raise RuntimeError("a nested tensor has no single shape; ask for size(dim), or unbind() it")
        return sizes
    if sizes[dim] == "j1" and t.__dict__["nested_layout"] is layouts.strided:
        raise RuntimeError(f"Given dimension {dim} is irregular and does not have a size.")
    return sizes[dim]


def _offsets(t: NestedTensor) -> Tensor:
    return ops.tensor(list(_starts(_lengths(t))))


def _lengths(t: NestedTensor) -> list[int]:
    """How long the samples are along the ragged dimension."""
    along = _ragged(t)[0] - 1
    return [int(p.shape[along]) for p in _parts(t)]


def _starts(counts: Any) -> Any:
    return itertools.accumulate(counts, initial=0)


def _table(numbers: Any) -> Tensor:
    return ops.tensor([list(n) if isinstance(n, tuple) else n for n in numbers], dtype=int64)


def _values(t: NestedTensor) -> Tensor:
    if (kept := t.__dict__.get("whole")) is not None:  # what the samples are parts of
        return kept  # type: ignore[no-any-return]
    parts = _parts(t)
    if t.__dict__["nested_layout"] is layouts.jagged:
        return ops.cat(parts, _ragged(t)[0] - 1)
    return ops.cat([p.flatten() for p in parts])


def _padded(t: NestedTensor, padding: float, output_size: Any = None) -> Tensor:
    parts = _parts(t)
    if not parts:
        return ops.empty(0)
    largest = [max(int(p.shape[i]) for p in parts) for i in range(parts[0].ndim)]
    if output_size is not None:
        largest = list(output_size)[1:]
    rows = []
    for p in parts:
        widths = [w for i in reversed(range(p.ndim)) for w in (0, largest[i] - int(p.shape[i]))]
        rows.append(ops.pad(p, widths, value=padding) if any(widths) else p)
    return ops.stack(rows)


def _grad(t: NestedTensor) -> Any:
    grads = [p.grad for p in _parts(t)]
    if all(g is None for g in grads):
        return None
    return make(_gradients.filled(_parts(t), grads), t.__dict__["nested_layout"])


def _set_grad(t: NestedTensor, value: Any) -> None:
    for i, p in enumerate(_parts(t)):
        p.grad = None if value is None else _parts(value)[i]


def _requires_grad_(t: NestedTensor, requires_grad: bool = True) -> NestedTensor:
    for p in _parts(t):
        p.requires_grad_(requires_grad)
    t.__dict__.pop("whole", None)  # gradients are those of the samples
    return t


def _item(t: NestedTensor, key: Any) -> Any:
    if isinstance(key, int):
        return _parts(t)[key]
    if isinstance(key, slice):
        return make(_parts(t)[key], t.__dict__["nested_layout"])
    if isinstance(key, tuple) and isinstance(key[0], int):
        return _parts(t)[key[0]][key[1:]]
    if isinstance(key, tuple) and key[0] is ... and len(key) < _rank(t) and None not in key:
        return make([p[key] for p in _parts(t)], t.__dict__["nested_layout"])
    raise NotImplementedError(
        "a nested tensor is indexed by the number of a sample first; unbind() it for anything else"
    )


def _unbind(t: NestedTensor, dim: int = 0) -> tuple[Tensor, ...]:
    if dim != 0:
        raise RuntimeError(f"NestedTensor can only be unbound along dimension 0 got dimension {dim} instead.")
    return tuple(_parts(t))


def _chunk(t: NestedTensor, chunks: int, dim: int = 0) -> Any:
    if dim % _rank(t):
        return _each(ops.chunk, "chunk", (t, chunks, dim), {})
    return _split(t, -(-len(_parts(t)) // chunks))


def _split(t: NestedTensor, split_size: Any, dim: int = 0) -> Any:
    if dim % _rank(t):
        return _each(ops.split, "split", (t, split_size, dim), {})
    parts, layout = _parts(t), t.__dict__["nested_layout"]
    sizes = [split_size] * -(-len(parts) // split_size) if isinstance(split_size, int) else split_size
    ends = list(itertools.accumulate(sizes))
    return tuple(make(parts[end - n : end], layout) for n, end in zip(sizes, ends))


def _cat(tensors: Any, dim: int = 0) -> NestedTensor:
    """Nested tensors side by side in each sample, or (dim 0) the samples of all of them."""
    if not all(isinstance(t, NestedTensor) for t in tensors):
        raise RuntimeError("Expected each tensor in given list to be nested.")
    if dim % _rank(tensors[0]):
        return _each(ops.cat, "cat", (tensors, dim), {})
    layout = tensors[0].__dict__["nested_layout"]
    if layout is layouts.jagged:
        raise RuntimeError(
            "cat(): not supported for NestedTensor on dim=0: with the layout torch.jagged; unbind() them"
        )
    return make([p for t in tensors for p in _parts(t)], layout)


_JOINING: dict[str, Any] = {
    **dict.fromkeys(("cat", "concat", "concatenate"), _cat), **dict.fromkeys(("vstack", "row_stack"), lambda tensors: _cat(tensors)),
    "hstack": lambda tensors: _cat(tensors, 1), "dstack": lambda tensors: _cat(tensors, 2),
}  # fmt: skip


def _narrow(t: NestedTensor, dim: int, start: int, length: int) -> Any:
    if dim % _rank(t):
        return _each(ops.narrow, "narrow", (t, dim, start, length), {})
    parts = _parts(t)
    start = start + len(parts) if start < 0 else start
    if not 0 <= start <= start + length <= len(parts):
        raise RuntimeError(f"narrow: samples {start} to {start + length} of {len(parts)}")
    return make(parts[start : start + length], t.__dict__["nested_layout"])


def _repeat(t: NestedTensor, *counts: Any) -> NestedTensor:
    times = counts[0] if len(counts) == 1 and isinstance(counts[0], (list, tuple)) else counts
    if len(times) < _rank(t) or times[0] != 1:
        raise NotImplementedError(f"repeat: counts of a nested tensor begin with 1 for its batch, got {list(times)}")
    return _each(ops.repeat, "repeat", (t, *times[1:]), {})


def _reshaping(name: str) -> Any:
    """`view` or `reshape` with the sizes of a batch: where samples differ, -1 (or the size that is none) is a sample's own."""

    def reshape(t: NestedTensor, *shape: Any) -> NestedTensor:
        function, parts, ragged = getattr(ops, name), _parts(t), _ragged(t)
        sizes = shape[0] if len(shape) == 1 else shape
        if isinstance(sizes, int):
            raise RuntimeError(f"{name}: For now nested {name} cannot change or infer the implicit batch dimension")
        if not isinstance(sizes, (list, tuple)):  # another dtype
            return _each(function, name, (t, *shape), {})
        if not sizes:
            raise RuntimeError(f"{name}: shape '[]' is invalid for a nested tensor")
        if sizes[0] != len(parts):
            raise RuntimeError(
                f"{name}: the first size of a nested tensor is that of its batch, {len(parts)}, got {sizes[0]}"
            )

        def own(p: Tensor, i: int, size: Any) -> int:
            if type(size) is str:
                return int(p.shape[ragged[0] - 1])
            return int(p.shape[i - 1]) if size == -1 and i in ragged else size

        return make(
            [function(p, [own(p, i, n) for i, n in enumerate(sizes) if i]) for p in parts], t.__dict__["nested_layout"]
        )

    reshape.__name__ = name
    return reshape


def _permute(t: NestedTensor, *dims: Any) -> Any:
    rank = _rank(t)
    order = [d % rank for d in (dims[0] if isinstance(dims[0], (list, tuple)) else dims)]
    if order[0] != 0:
        raise RuntimeError("permute: the batch of a nested tensor stays its first dimension")
    return _each(ops.permute, "permute", (t, order[1:]), {})


def _select(t: NestedTensor, dim: int, index: int) -> Any:
    return _each(ops.select, "select", (t, dim, index), {}) if dim % _rank(t) else _parts(t)[index]


_METHODS: dict[str, Any] = {
    "select": _select,
    "view": _reshaping("view"),
    "reshape": _reshaping("reshape"),
    "permute": _permute,
    "chunk": _chunk,
    "split": _split,
    "narrow": _narrow,
    "repeat": _repeat,
    "size": _one_size,
    "dim": _rank,
    "unbind": _unbind,
    "to_padded_tensor": _padded,
    "values": _values,
    "offsets": _offsets,
    "lengths": lambda t: None,
    "_get_max_seqlen": lambda t: max(_lengths(t)),
    "_get_min_seqlen": lambda t: min(_lengths(t)),
    "_nested_tensor_size": lambda t: _table([p.shape for p in _parts(t)]),
    "_nested_tensor_strides": lambda t: _table([p.stride() for p in _parts(t)]),
    "_nested_tensor_storage_offsets": lambda t: _table(list(_starts(p.numel() for p in _parts(t)))[:-1]),
    "_samples": _parts,
    "backward": _backward,
    "numel": lambda t: sum(p.numel() for p in _parts(t)),
    "is_contiguous": lambda t, *args, **kwargs: all(p.is_contiguous(*args, **kwargs) for p in _parts(t)),
    "requires_grad_": _requires_grad_,
    "__getitem__": _item,
    "__len__": lambda t: len(_parts(t)),
    "is_floating_point": lambda t: t.dtype.is_floating_point,
    "is_complex": lambda t: t.dtype.is_complex,
    "is_same_size": _is_same_size,
    "bmm": lambda t, other: ops.matmul(t, other),
    "__repr__": NestedTensor.__repr__,
}
_METHODS |= {
    name: _reduction(name)
    for name in ("sum", "mean", "amax", "amin", "prod", "max", "min", "all", "any", "argmax", "argmin")
}
_PROPERTIES: dict[str, Any] = {
    "is_nested": lambda t: True,
    "shape": _one_size,
    "ndim": _rank,
    "layout": lambda t: t.__dict__["nested_layout"],
    "requires_grad": lambda t: any(p.requires_grad for p in _parts(t)),
    "grad": _grad,
    "grad_fn": lambda t: next((p.grad_fn for p in _parts(t) if p.grad_fn is not None), None),
    "is_leaf": lambda t: all(p.is_leaf for p in _parts(t)),
    "_values": lambda t: _values(t),
    "_offsets": lambda t: _offsets(t),
    "_lengths": lambda t: None,
    "_ragged_idx": lambda t: _ragged(t)[0],
    "_max_seqlen": lambda t: max(_lengths(t)),
    "_min_seqlen": lambda t: min(_lengths(t)),
    "mT": lambda t: _each(ops.transpose, "transpose", (t, -2, -1), {}),
}


def _method_of_samples(name: str, function: Any) -> Any:
    def method(*args: Any, **kwargs: Any) -> Any:
        return _drawn(function, *args, **kwargs) if name in _DRAWN else _each(function, name, args, kwargs)

    method.__name__ = name
    return method


# Methods that are called often do not ask the class of their argument.
for _name, _function in methods.items():
    if not _name.startswith("__"):
        setattr(NestedTensor, _name, _method_of_samples(_name, _function))
for _name, _method in _METHODS.items():
    setattr(NestedTensor, _name, _method)
for _name, _read in _PROPERTIES.items():
    setattr(NestedTensor, _name, property(_read, _set_grad if _name == "grad" else None))
