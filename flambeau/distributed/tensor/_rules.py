"""What functions do with divided tensors. Each rule gives its operands placements under which the local parts can be computed
with alone, calls the function on these, and says how the result lies. Element by element, any placement will do; along rows,
any that does not divide them; views move the divided dimension; in products a divided inner dimension gives summands."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..._core.sizes import broadcast_shapes
from ..._core.state import GRAD
from ..._ops.records.pointwise_op import Pointwise
from ..._ops.registry import ops, records
from ..._tensor import Tensor
from ._dtensor import DTensor, made, outside, plain
from ._redistribute import Used, summed
from ._utils import compute_local_shape_and_global_offset
from .placement_types import Partial, Placement, Replicate, Shard

Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}
_REPLICATE = Replicate()


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Declares the rule of functions."""

    def declare(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return declare


def call(func: Any, args: tuple[Any, ...], named: dict[str, Any], name: str = "") -> Any:
    """The result of a function with DTensors among its arguments."""
    name = name or getattr(func, "__name__", "")
    if name in ("__get__", "__set__", "__delete__"):  # attributes that are those of the local part
        with outside():
            return func(*args, **named)
    found_rule = RULES.get(name) or (_alike if name.endswith("_like") else None)
    bare = name.strip("_")
    inplace = (name.endswith("_") and not name.endswith("__")) or (name.startswith("__i") and bare[1:] in records)
    if found_rule is None:
        found = records.get(bare) or (records.get(bare[1:]) if name.startswith("__") else None)
        if isinstance(found, Pointwise):
            found_rule = _pointwise
        elif all(p.is_replicate() for t in _divided(args, named) for p in t.placements):
            found_rule = _whole
    if found_rule is None:
        where = ", ".join(str(t.placements) for t in _divided(args, named))
        raise NotImplementedError(
            f"Operator {name} does not have a sharding strategy registered: there is no rule for a DTensor with placements "
            f"{where}; redistribute it to Replicate(), or work on to_local() or full_tensor()"
        )
    if found_rule is _pointwise:
        return _pointwise(func, args, named, inplace, bare.lstrip("ir") if name.startswith("__") else bare)
    return found_rule(func, *args, **named)


def _divided(args: Sequence[Any], named: dict[str, Any]) -> list[DTensor]:
    found = []
    for value in [*args, *named.values()]:
        if isinstance(value, DTensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += [v for v in value if isinstance(v, DTensor)]
    return found


def _same_mesh(tensors: Sequence[DTensor]) -> Any:
    mesh = tensors[0].device_mesh
    if any(t.device_mesh != mesh for t in tensors):
        raise RuntimeError("DTensors of one operation must be on the same mesh")
    return mesh


def _as(tensor: DTensor, placements: Sequence[Placement], parts: Sequence[int] = ()) -> Tensor:
    """The local part under other placements; `parts` are dimensions of the mesh along which it serves other parts of the work."""
    out = plain(tensor._placed(placements))
    if out._k & GRAD:
        for dim in parts:
            if isinstance(placements[dim], Replicate):
                out = Used.apply(out, tensor.device_mesh.get_group(dim))
    return out


def _mixed(name: str) -> RuntimeError:
    return RuntimeError(
        f"{name} got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor before calling distributed "
        "operators!"
    )


# -- element by element --------------------------------------------------------------------------------------------------

_LINEAR = ("add", "sub", "neg", "add_scaled", "sub_scaled")  # of summands in all operands
_SCALING = ("mul", "div", "neg", "truediv")  # of summands, by numbers


def _pointwise(func: Any, args: tuple[Any, ...], named: dict[str, Any], inplace: bool, name: str) -> Any:
    tensors = [a for a in [*args, *named.values()] if isinstance(a, Tensor)]
    whole = [t for t in tensors if isinstance(t, DTensor)]
    if any(not isinstance(t, DTensor) and t.dim() for t in tensors):
        raise _mixed(name)
    mesh = _same_mesh(whole)
    shape = broadcast_shapes(*[tuple(t.shape) for t in tensors])
    count = len(shape)
    result: list[Placement] = []
    for dim in range(mesh.ndim):
        own = [t.placements[dim] for t in whole]
        if inplace:
            result.append(args[0].placements[dim])
            if isinstance(result[-1], Partial) and (name not in _SCALING or len(tensors) > 1):
                raise RuntimeError(
                    f"{name}_: in-place operations that require placement changes are not supported: {own}"
                )
        elif all(isinstance(p, Partial) for p in own) and (
            (name in _LINEAR and len(whole) == len(tensors) and len(set(own)) == 1 and len(args) == len(whole))
            or (name in _SCALING and len(tensors) == 1 and isinstance(args[0], DTensor))
        ):
            result.append(own[0])
        else:
            shards = [
                p.dim + count - t.dim()
                for t, p in zip(whole, own)
                if isinstance(p, Shard) and t.shape[p.dim] == shape[p.dim + count - t.dim()]
            ]
            result.append(Shard(shards[0]) if shards else _REPLICATE)

    def local(value: Any) -> Any:
        if not isinstance(value, DTensor):
            return value
        missing = count - value.dim()
        placements, parts = [], []
        for dim, p in enumerate(result):
            if isinstance(p, Shard) and (p.dim < missing or value.shape[p.dim - missing] != shape[p.dim]):
                placements.append(_REPLICATE)
                parts.append(dim)
            else:
                placements.append(Shard(p.dim - missing) if isinstance(p, Shard) else p)  # type: ignore[arg-type]
        return _as(value, placements, parts)

    given = [local(a) for a in args]
    named = {key: local(value) for key, value in named.items()}
    out = func(*given, **named)
    return args[0] if inplace else made(out, mesh, result, shape)


@rule("clone", "detach", "contiguous", "to", "type", "alias", "dropout")
@rule("float", "double", "half", "bfloat16", "long", "int", "bool", "cpu")
@rule("zero_", "fill_", "uniform_", "normal_", "bernoulli_", "exponential_", "detach_")
def _alike(func: Any, x: Any, *args: Any, **named: Any) -> Any:
    """Copies, casts, fillings: the result lies as the operand does."""
    if not isinstance(x, DTensor) or any(isinstance(a, DTensor) for a in args):
        return _pointwise(func, (x, *args), named, False, func.__name__)
    name = func.__name__
    out = func(plain(x), *args, **named)
    if name.endswith("_"):
        return x
    placements = [_REPLICATE if isinstance(p, Partial) and name.endswith("_like") else p for p in x.placements]
    return made(out, x.device_mesh, placements, x._global)


@rule("type_as")
def _type_as(func: Any, x: Tensor, other: Tensor) -> Any:
    return x.to(other.dtype)


@rule("view_as_complex", "view_as_real")
def _pairs(func: Any, x: DTensor) -> Any:
    """Complex numbers as pairs along a last dimension, or the reverse; pairs are not torn apart."""
    last, closes = x.dim() - 1, func.__name__ == "view_as_complex"
    places = [_REPLICATE if closes and p.is_shard(last) else p for p in x.placements]
    shape = x._global[:-1] if closes else (*x._global, 2)
    return made(func(plain(x._placed(places))), x.device_mesh, places, shape)


@rule("requires_grad_")
def _requires_grad(func: Any, x: DTensor, *args: Any, **named: Any) -> Any:
    with outside():
        func(x, *args, **named)
    return x


@rule("copy_")
def _copy(func: Any, x: Any, other: Any, *args: Any, **named: Any) -> Any:
    if not isinstance(x, DTensor):
        raise RuntimeError("copy_: a DTensor cannot be copied into a plain tensor; use full_tensor() or to_local()")
    if not isinstance(other, DTensor):
        if isinstance(other, Tensor) and other.dim():
            raise _mixed("copy_")
        func(plain(x), other)
    else:
        func(plain(x), _as(other, x.placements))
    return x


@rule("cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "binary_cross_entropy", "kl_div")
def _whole(func: Any, *args: Any, **named: Any) -> Any:
    """Every process computes with whole tensors."""
    tensors = _divided(args, named)
    mesh = _same_mesh(tensors)
    all_of_it = [_REPLICATE] * mesh.ndim

    def local(value: Any) -> Any:
        if isinstance(value, DTensor):
            return _as(value, all_of_it)
        return type(value)(map(local, value)) if type(value) in (list, tuple) else value

    def wrapped(value: Any) -> Any:
        if isinstance(value, Tensor):
            return made(value, mesh, all_of_it, value.shape)
        return type(value)(map(wrapped, value)) if type(value) in (list, tuple) else value

    out = func(*map(local, args), **{key: local(value) for key, value in named.items()})
    return wrapped(out)


# -- along dimensions ----------------------------------------------------------------------------------------------------


def _dims(dim: Any, ndim: int) -> list[int]:
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return list(range(ndim))
    return [d % ndim for d in (dim if isinstance(dim, (list, tuple)) else [dim])] if ndim else []


@rule("sum", "mean", "amax", "amin", "max", "min")
@rule("prod", "var", "std", "all", "any", "argmax", "argmin")
def _reduction(func: Any, x: DTensor, dim: Any = None, keepdim: bool = False, **named: Any) -> Any:
    name, mesh = func.__name__, x.device_mesh
    if isinstance(dim, Tensor):  # torch.max of two tensors
        return _pointwise(func, (x, dim), named, False, name)
    named = {key: value for key, value in named.items() if value is not None}
    dims = _dims(named.pop("axis", dim), x.dim())
    summing, extreme = name in ("sum", "mean"), name in ("amax", "amin", "max", "min")
    before: list[Placement] = []
    after: list[Placement] = []
    for p in x.placements:
        if isinstance(p, Shard) and p.dim in dims:
            kept = summing or (extreme and not x._k & GRAD and name.startswith("a"))
            before.append(p if kept else _REPLICATE)
            after.append(Partial("sum" if summing else name[1:]) if kept else _REPLICATE)
        elif isinstance(p, Shard):
            before.append(p)
            after.append(p if keepdim else Shard(p.dim - sum(d < p.dim for d in dims)))
        else:
            before.append(p if summing else _REPLICATE)
            after.append(before[-1])
    part = _as(x, before)
    shape = [1 if d in dims else n for d, n in enumerate(x.shape) if d not in dims or keepdim]
    if name == "mean":
        out = ops.sum(part, dims, keepdim, **named) / math.prod(x.shape[d] for d in dims)
    elif dim is None:
        out = func(part, **named)
    else:
        out = func(part, dim, keepdim, **named)
    if isinstance(out, Tensor):
        return made(out, mesh, after, shape)
    return type(out)([made(t, mesh, after, shape) for t in out])


@rule("vector_norm", "norm", "linalg_vector_norm")
def _norm(func: Any, x: DTensor, ord: Any = 2, dim: Any = None, *args: Any, **named: Any) -> Any:
    """The norm of all elements: of parts, and then of their norms."""
    order = named.pop("p", ord)
    order = 2.0 if order in (None, "fro") else float(order)
    if dim is not None or args or any(v is not None and v is not False for v in named.values()):
        return _whole(func, x, ord, dim, *args, **named)
    x = x.redistribute(placements=[_REPLICATE if isinstance(p, Partial) else p for p in x.placements])
    part = ops.vector_norm(plain(x), order) if plain(x).numel() else plain(x).new_zeros(())
    for dim_of_mesh, p in enumerate(x.placements):
        if isinstance(p, Shard):
            group = x.device_mesh.get_group(dim_of_mesh)
            if math.isinf(order):
                part = summed(part, group, "max" if order > 0 else "min")
            else:
                part = summed(part**order, group) ** (1 / order)
    return made(part, x.device_mesh, [_REPLICATE] * x.device_mesh.ndim, ())


@rule("softmax", "log_softmax", "softmin", "cumsum", "cumprod", "flip", "sort", "argsort", "logcumsumexp")
def _rows(func: Any, x: DTensor, dim: Any = -1, *args: Any, **named: Any) -> Any:
    """Work along one dimension, which must not be divided."""
    row = dim % max(x.dim(), 1)
    placements = [p if isinstance(p, Shard) and p.dim != row else _REPLICATE for p in x.placements]
    out = func(_as(x, placements), dim, *args, **named)
    if isinstance(out, Tensor):
        return made(out, x.device_mesh, placements, x.shape)
    return type(out)([made(t, x.device_mesh, placements, x.shape) for t in out])


@rule("cat", "concat", "concatenate")
def _cat(func: Any, tensors: Any, dim: int = 0) -> Any:
    """The dimension along which tensors are joined must not be divided."""
    if not all(isinstance(t, DTensor) for t in tensors):
        raise _mixed("cat")
    mesh, row = _same_mesh(tensors), dim % tensors[0].dim()
    places: list[Placement] = []
    for of_all in zip(*[t.placements for t in tensors]):
        kept = [p for p in of_all if isinstance(p, Shard) and p.dim != row]
        places.append(kept[0] if kept else _REPLICATE)
    shape = list(tensors[0].shape)
    shape[row] = sum(t.shape[row] for t in tensors)
    return made(func([_as(t, places) for t in tensors], dim), mesh, places, shape)


@rule("stack")
def _stack(func: Any, tensors: Any, dim: int = 0) -> Any:
    return ops.cat([ops.unsqueeze(t, dim) for t in tensors], dim)


@rule("layer_norm", "rms_norm")
def _normalization(func: Any, x: DTensor, shape: Any, weight: Any = None, *more: Any, **named: Any) -> Any:
    """Layer and RMS norm over the last dimensions, with weights."""
    first = x.dim() - (1 if isinstance(shape, int) else len(shape))
    placements = [p if isinstance(p, Shard) and p.dim < first else _REPLICATE for p in x.placements]
    parts = [dim for dim, p in enumerate(placements) if isinstance(p, Shard)]
    all_of_it = [_REPLICATE] * len(placements)

    def local(value: Any) -> Any:
        return _as(value, all_of_it, parts) if isinstance(value, DTensor) else value

    out = func(_as(x, placements), shape, local(weight), *map(local, more), **{k: local(v) for k, v in named.items()})
    return made(out, x.device_mesh, placements, x.shape)


# -- views ---------------------------------------------------------------------------------------------------------------


@rule("transpose", "permute", "t", "unsqueeze", "movedim", "moveaxis", "swapaxes", "swapdims")
def _moved(func: Any, x: DTensor, *args: Any, **named: Any) -> Any:
    """Views that keep or insert dimensions: where each goes is seen on a tensor without elements."""
    marks = ops.empty([d + 2 for d in range(x.dim())], device="meta")
    order = [n - 2 if n > 1 else None for n in func(marks, *args, **named).shape]
    placements = [Shard(order.index(p.dim)) if isinstance(p, Shard) else p for p in x.placements]
    shape = [1 if d is None else x.shape[d] for d in order]
    return made(func(plain(x), *args, **named), x.device_mesh, placements, shape)


@rule("squeeze")
def _squeezed(func: Any, x: DTensor, dim: Any = None) -> Any:
    gone = [d for d in _dims(dim, x.dim()) if x.shape[d] == 1]
    kept = [d for d in range(x.dim()) if d not in gone]
    before = [_REPLICATE if isinstance(p, Shard) and p.dim in gone else p for p in x.placements]
    out = ops.squeeze(_as(x, before), tuple(gone)) if gone else _as(x, before)
    after = [Shard(kept.index(p.dim)) if isinstance(p, Shard) else p for p in before]
    return made(out, x.device_mesh, after, [x.shape[d] for d in kept])


def _groups(old: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Dimensions of two shapes with the same elements, in groups that become each other."""
    found, i, j = [], 0, 0
    while i < len(old) or j < len(new):
        a, b = [i] if i < len(old) else [], [j] if j < len(new) else []
        m, n = (old[i] if a else 1), (new[j] if b else 1)
        i, j = i + len(a), j + len(b)
        while m != n:
            if m < n:
                a.append(i)
                m, i = m * old[i], i + 1
            else:
                b.append(j)
                n, j = n * new[j], j + 1
        found.append((a, b))
    return found


@rule("view", "reshape", "flatten", "unflatten", "view_as", "ravel", "_unsafe_view")
def _reshaped(func: Any, x: DTensor, *args: Any, **named: Any) -> Any:
    """Views of another shape: a divided dimension may become the first of several, or take in those after it."""
    shape = list(func(ops.empty(x.shape, device="meta"), *args, **named).shape)
    before, after = [], []
    for dim, p in enumerate(x.placements):
        place: Placement = p
        if isinstance(p, Shard):
            parts = x.device_mesh.size(dim)
            a, b = next(pair for pair in _groups(x.shape, shape) if p.dim in pair[0]) if x.numel() else ([], [])
            wide = [d for d in a if x.shape[d] > 1]
            first = next((d for d in b if shape[d] > 1), None)
            fits = wide and wide[0] == p.dim and first is not None
            even = fits and x.shape[p.dim] % parts == 0 and shape[first] % parts == 0  # type: ignore[index]
            if fits and (even or (len(wide) == 1 and sum(shape[d] > 1 for d in b) == 1)):
                place = Shard(first)  # type: ignore[arg-type]
            else:
                p = place = _REPLICATE
        before.append(p)
        after.append(place)
    part = _as(x, before)
    local_shape = compute_local_shape_and_global_offset(shape, x.device_mesh, after)[0]
    return made(ops.reshape(part, local_shape), x.device_mesh, after, shape)


@rule("__getitem__")
def _item(func: Any, x: DTensor, key: Any) -> Any:
    """Basic keys that leave divided dimensions alone; those they touch are gathered."""
    keys = list(key) if isinstance(key, tuple) else [key]
    if any(isinstance(k, (Tensor, list, bool)) for k in keys):
        return _whole(func, x, key)
    used = sum(k is not None and k is not Ellipsis for k in keys)
    if Ellipsis in keys:
        at = keys.index(Ellipsis)
        keys[at : at + 1] = [slice(None)] * (x.dim() - used)
    keys += [slice(None)] * (x.dim() - sum(k is not None for k in keys))
    places: dict[int, int] = {}
    source = target = 0
    for k in keys:
        if k == slice(None):
            places[source] = target
        source += k is not None
        target += not isinstance(k, int)
    before = [_REPLICATE if isinstance(p, Shard) and p.dim not in places else p for p in x.placements]
    after = [Shard(places[p.dim]) if isinstance(p, Shard) else p for p in before]
    shape = func(ops.empty(x.shape, device="meta"), key).shape
    return made(func(_as(x, before), key), x.device_mesh, after, shape)


# -- products ------------------------------------------------------------------------------------------------------------


@rule("mm", "matmul", "bmm", "__matmul__")
def _product(func: Any, x: Any, y: Any) -> Any:
    """x @ y: rows of x, columns of y and batches stay divided; a divided inner dimension gives summands."""
    if not isinstance(x, DTensor) or not isinstance(y, DTensor):
        raise _mixed(func.__name__)
    if x.dim() < 2 or y.dim() < 2 or (y.dim() > 2 and x.shape[:-2] != y.shape[:-2]):
        return _whole(func, x, y)
    rows, inner, columns = x.dim() - 2, x.dim() - 1, y.dim() - 1
    left, right, out, share_x, share_y = _plan(x, y, rows, inner, y.dim() - 2, columns, y.dim() > 2)
    shape = [*x.shape[:-1], y.shape[-1]]
    return made(func(_as(x, left, share_x), _as(y, right, share_y)), _same_mesh([x, y]), out, shape)


def _plan(x: DTensor, y: DTensor, rows: int, inner: int, inner_y: int, columns: int, batched: bool) -> Any:
    """Placements of both operands and of the product, and dimensions of the mesh that divide only the other operand."""
    left: list[Placement] = []
    right: list[Placement] = []
    out: list[Placement] = []
    share_x, share_y = [], []
    for dim, (p, q) in enumerate(zip(x.placements, y.placements)):
        if isinstance(p, Shard) and p.dim < inner:
            left.append(p)
            right.append(p if batched and p.dim < rows else _REPLICATE)
            out.append(p)
            if isinstance(right[-1], Replicate):
                share_y.append(dim)
        elif isinstance(q, Shard) and q.dim == columns:
            left.append(_REPLICATE)
            right.append(q)
            out.append(Shard(inner))
            share_x.append(dim)
        elif (isinstance(p, Shard) and p.dim == inner) or (isinstance(q, Shard) and q.dim == inner_y):
            left.append(Shard(inner))
            right.append(Shard(inner_y))
            out.append(Partial())
        elif batched and isinstance(q, Shard) and q.dim < rows:
            left.append(q)
            right.append(q)
            out.append(q)
        else:
            left.append(_REPLICATE)
            right.append(_REPLICATE)
            out.append(_REPLICATE)
    return left, right, out, share_x, share_y


@rule("linear")
def _linear(func: Any, x: Any, weight: Any, bias: Any = None) -> Any:
    if not isinstance(x, DTensor) or not isinstance(weight, DTensor):
        raise _mixed("linear")
    inner = x.dim() - 1
    left, right, out, share_x, share_y = _plan(x, weight, inner - 1, inner, 1, 0, False)
    result = func(_as(x, left, share_x), _as(weight, right, share_y))
    whole = made(result, x.device_mesh, out, [*x.shape[:-1], weight.shape[0]])
    if bias is None:
        return whole
    if not isinstance(bias, DTensor):
        raise _mixed("linear")
    if any(isinstance(p, Partial) for p in out):  # each summand gets its share of the bias
        places = [p if isinstance(p, Partial) else _REPLICATE for p in out]
        places = [Shard(0) if isinstance(o, Shard) and o.dim == inner else p for o, p in zip(out, places)]
        bias = made(
            _as(bias, places, [d for d, o in enumerate(out) if isinstance(o, Shard) and o.dim != inner]),
            x.device_mesh, places, bias.shape,
        )  # fmt: skip
        return made(ops.add(plain(whole), plain(bias)), x.device_mesh, out, whole.shape)
    return whole + bias


@rule("addmm")
def _addmm(func: Any, c: Any, x: Any, y: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    product = ops.mm(x, y)
    return (product if alpha == 1 else product * alpha) + (c if beta == 1 else c * beta)


@rule("embedding")
def _embedding(func: Any, ids: Any, weight: Any, *args: Any, **named: Any) -> Any:
    if not isinstance(ids, DTensor) or not isinstance(weight, DTensor):
        raise _mixed("embedding")
    left, right, out, share = [], [], [], []
    for dim, (p, q) in enumerate(zip(ids.placements, weight.placements)):
        if isinstance(p, Shard):
            left.append(p), right.append(_REPLICATE), out.append(p), share.append(dim)  # type: ignore[func-returns-value]
        else:
            columns = isinstance(q, Shard) and q.dim == 1
            left.append(_REPLICATE)
            right.append(q if columns else _REPLICATE)
            out.append(Shard(ids.dim()) if columns else _REPLICATE)
    result = func(_as(ids, left), _as(weight, right, share), *args, **named)
    return made(result, ids.device_mesh, out, [*ids.shape, weight.shape[1]])


@rule("scaled_dot_product_attention")
def _attention(func: Any, q: Any, k: Any, v: Any, *args: Any, **named: Any) -> Any:
    """Batches and heads may be divided."""
    if any(isinstance(a, Tensor) for a in [*args, *named.values()]) or any(t.shape[:2] != q.shape[:2] for t in (k, v)):
        return _whole(func, q, k, v, *args, **named)
    places = [p if isinstance(p, Shard) and p.dim < q.dim() - 2 else _REPLICATE for p in q.placements]
    out = func(_as(q, places), _as(k, places), _as(v, places), *args, **named)
    return made(out, q.device_mesh, places, [*q.shape[:-1], v.shape[-1]])


# -- gradients -----------------------------------------------------------------------------------------------------------


@rule("backward")
def _backward(func: Any, x: DTensor, gradient: Any = None, *args: Any, **named: Any) -> None:
    """Summands are made one first: the gradient of a sum is that of every summand."""
    places = [_REPLICATE if isinstance(p, Partial) else p for p in x.placements]
    if isinstance(gradient, DTensor):
        gradient = _as(gradient, places)
    func(_as(x, places), gradient, *args, **named)


@rule("register_hook", "register_post_accumulate_grad_hook", "retain_grad")
@rule("is_floating_point", "is_complex", "element_size", "data_ptr", "untyped_storage", "is_contiguous")
def _hooked(func: Any, x: DTensor, *args: Any, **named: Any) -> Any:
    with outside():
        return func(x, *args, **named)


def _method(name: str, func: Any) -> Any:
    def method(self: DTensor, *args: Any, **named: Any) -> Any:
        return call(func, (self, *args), named, name)

    method.__name__ = method.__qualname__ = name
    return method


for _name in RULES:  # some methods look at the shape before they ask anybody
    if hasattr(Tensor, _name) and _name not in DTensor.__dict__:
        setattr(DTensor, _name, _method(_name, getattr(Tensor, _name)))
