"""Random tensors: new ones, and in place."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._autograd.node import Node
from ..._backend.cpu import cpu
from ..._core import allocation
from ..._core import random_draws as draws
from ..._core import random_transforms as transforms
from ..._core.allocation import LARGE, empty, fresh
from ..._core.devices import _local as current
from ..._core.dtypes import FLOATING, bool_, default, dtype, float32, float64, int64
from ..._core.random import SIGNIFICAND_BITS, MersenneState
from ..._core.state import CUDA, DISPATCH, DUAL, GRAD, META, local, modes
from ..._dispatch import backend_of
from ..._errors.frames import warn_user
from ..._kernel.loops.lang import kernel
from ..._kernel.random.choosing import chosen
from ..._kernel.render.value import COMPUTE
from ..._tensor import Tensor, bump, wrap
from ..records.inplace import assign
from ..records.out import resize_out, write_out
from ..records.rewriting import rewrite_history
from ..records.rules import type_name
from ..records.writable import check_writable
from ..registry import ops, public, quick
from .conversion import host_array
from .creation import like
from .drawing import MOST, drawn, integers, normals, permutation, uniforms
from .factory import as_dtype, check_layout, device_bits, finished, made_there, memory, number_of, shape_argument
from .generator import default_generator, default_of, draw, draw_at, drawing, engine_of, words_of

_SINGLE = np.dtype(np.float32)
mapped: Any = None  # set by `func.randomness`: how random functions run inside `vmap`

# -- filling tensors ---------------------------------------------------------------------------------------------


class _Drawn:
    """The history of random values: they do not change with what they replaced or were drawn for."""

    def __init__(self, name: str):
        self.name = name
        self.backward_name = name.title().replace("_", "") + "Backward0"

    def backward(self, node: Node, g: Tensor, create_graph: bool) -> list[Any]:
        return [None if e is None else engine_zeros(info) for e, info in zip(node.edges, node.info)]


def engine_zeros(info: tuple[Any, dtype, int]) -> Tensor:
    shape, d, k = info
    return ops.zeros(shape, dtype=d, device="meta" if k & META else "cuda" if k & CUDA else "cpu")


_histories: dict[str, _Drawn] = {}


def history_of(name: str, *sources: Any) -> Node | None:
    """The node behind values drawn for tensors of which one requires grad."""
    if not local.grad or not any(isinstance(t, Tensor) and t._k & GRAD for t in sources):
        return None
    tensors = [t for t in sources if isinstance(t, Tensor)]
    node = Node(
        _histories.setdefault(name, _Drawn(name)), tuple((t._edge or (t, 0)) if t._k & GRAD else None for t in tensors)
    )
    node.info = tuple((t._array.shape, t.dtype, t._k) for t in tensors)
    return node


def fill(t: Tensor, name: str, function: Callable[..., Any], generator: Any, *params: Any) -> Tensor:
    """Writes random values into a tensor in the order that its elements have in memory."""
    if local.batches:
        return mapped.fill(lambda t: getattr(ops, name + "_")(t, *params, generator=generator), t)
    engine = engine_of(generator, name, t._k if isinstance(t, Tensor) else 0)
    if not isinstance(t, Tensor):
        raise TypeError(f"{name}_(): argument 'input' must be Tensor, not {type(t).__name__}")
    check_writable(t)
    node = history_of(name, t)
    array = t._array
    if t._k & META:
        function(engine, 0, t.dtype.numpy, *params)  # for its checks
        bump(t)
    else:
        contiguous = bool(array.flags.c_contiguous)
        if function is transforms.normal and not contiguous and not t._k & CUDA:
            function = _normal_one_by_one
        order = None if contiguous else _memory_order(array)
        place = array if order is None else array.transpose(order)
        into = place if not modes.on and place.flags.c_contiguous else None
        values = draw_at(t._k, function, engine, t.dtype, place.shape, t.dtype.numpy, *params, into=into)
        if modes.on:
            back = sorted(range(array.ndim), key=(order or range(array.ndim)).__getitem__)
            assign(t, values if order is None else ops.permute(values, back), name)
        else:
            if values._array is not into:
                place[...] = values._array
            bump(t)
    if node is not None:
        rewrite_history(t, (node, 0))
    if t._k & DUAL:
        ops.zero_(t._autograd_meta.tangent)  # type: ignore[union-attr]
    return t


def kept(t: Tensor, shape: Any, chance: float) -> Tensor:
    """True with some probability, where a tensor is."""
    k = t._k
    if (k | modes.on) & DISPATCH:  # who looks at operators sees a write
        return bernoulli_(ops.new_empty(t, shape, dtype=bool_), chance)
    size = math.prod(shape)
    if not (k & ~GRAD or modes.on or local.batches) and 0 < size <= MOST:
        made, words = empty(shape, np.dtype(np.bool_)), words_of(None, 2 * size, "dropout")
        threshold = np.array(math.ceil(chance * 2.0**53))  # a draw is below the chance if its bits are below this
        cpu.small(chosen, ("u32", "i64", "b1"))(words, threshold, made.reshape(-1))
        return wrap(made, bool_)
    return draw_at(k, draws.keep_mask, default_of(k)._engine, bool_, shape, chance)


def _memory_order(array: Any) -> list[int]:
    """The dimensions from the outermost in memory to the innermost."""
    return sorted(range(array.ndim), key=lambda i: -array.strides[i])


def _normal_one_by_one(engine: Any, shape: Any, numpy_dtype: Any, mean: float = 0.0, std: float = 1.0) -> Any:
    """What PyTorch draws for tensors with gaps or another order of dimensions."""
    return transforms.normal(engine, shape, numpy_dtype, mean, std, contiguous=False)


def new_tensor(
    name: str, function: Callable[..., Any], shape: tuple[int, ...], options: dict[str, Any], d: Any, *params: Any
) -> Tensor:
    """A new random tensor with the options that all functions making tensors have."""
    if local.batches:
        return mapped.new(lambda lead: getattr(ops, name)(*params, (*lead, *shape), **options))
    out = options.pop("out", None)
    generator = options.pop("generator", None)
    given = as_dtype(options.pop("dtype", None), name)
    check_layout(options.pop("layout", None), options.pop("pin_memory", False))
    where, requires_grad = options.pop("device", None), options.pop("requires_grad", False)
    form = options.pop("memory_format", None)
    if options:
        raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(options))}'")
    if out is not None:
        if given is not None and out.dtype is not given:
            raise RuntimeError(f"dtype {given} does not match dtype of out parameter ({out.dtype})")
        resize_out(out, shape)
        return fill(out, name, function, generator, *params)
    d = given or d
    k, index = device_bits(where)
    engine = engine_of(generator, name, k)
    if form is not None or index is not None or k & META or (k and modes.on):
        t = finished(memory(shape, d, k, index), d, k)
        fill(t, name, function, generator, *params)
    else:
        t = draw_at(k, function, engine, d, shape, d.numpy, *params)
        if not local.inference and not requires_grad:
            return t
    return finished(t._array, d, k, requires_grad)


def _made_like(name: str, function: Callable[..., Any], input: Tensor, options: dict[str, Any], *params: Any) -> Tensor:
    if local.batches:
        return mapped.like(lambda t: getattr(ops, name)(t, *params, **options), input)
    generator, requires_grad = options.pop("generator", None), options.pop("requires_grad", False)
    array, d, k = like(input, name=name, **options)
    t = fill(finished(array, d, k), name, function, generator, *params)
    return finished(t._array, d, k, True) if requires_grad else t


def _is_plain_size(size: tuple[Any, ...]) -> bool:
    """Whether a new tensor is an ordinary one of the default device, its size given as numbers."""
    if local.inference or local.batches or current.device is not None or not size:
        return False
    return all([n.__class__ is int and n >= 0 for n in size])


# -- new tensors -------------------------------------------------------------------------------------------------


def _quickly(write: Callable[..., bool]) -> Callable[[Any], Any]:
    """Puts before rand_like(x) or the like what makes a few in single precision; `write` fills an array, or returns False."""

    def fast(input: Any) -> Any:
        if not isinstance(input, Tensor) or input._k > GRAD or input.dtype is not float32:
            return NotImplemented
        if allocation.watcher is not None or modes.inferring is not None or local.batches:
            return NotImplemented
        if not input._array.flags.c_contiguous or input._array.nbytes >= LARGE:
            return NotImplemented
        array, engine = fresh(input._array.shape, _SINGLE), default_generator._engine
        with drawing(engine):
            return wrap(array, float32) if write(engine, array) else NotImplemented

    return quick(fast)


@drawn(uniforms)
@made_there
@public(method=False)
def rand(*size: Any, **options: Any) -> Tensor:
    """Uniform random numbers in [0, 1).

    >>> import flambeau as torch
    >>> torch.manual_seed(0); torch.rand(2)  # doctest: +ELLIPSIS
    <...>
    tensor([0.4963, 0.7682])
    """
    if not options and _is_plain_size(size):
        d = default.float
        return draw(draws.uniform, default_generator._engine, d, size, d.numpy)
    return new_tensor("rand", draws.uniform, shape_argument("rand", size, options), options, default.float)


@drawn(normals)
@made_there
@public(method=False)
def randn(*size: Any, **options: Any) -> Tensor:
    """Random numbers of the standard normal distribution."""
    if not options and _is_plain_size(size):
        d = default.float
        return draw(transforms.normal, default_generator._engine, d, size, d.numpy)
    return new_tensor("randn", transforms.normal, shape_argument("randn", size, options), options, default.float)


@drawn(integers)
@made_there
@public(method=False)
def randint(*args: Any, **options: Any) -> Tensor:
    """Random integers in [low, high): randint(high, size) or randint(low, high, size).

    >>> import flambeau as torch
    >>> torch.randint(3, 5, (2, 2)).shape
    torch.Size([2, 2])
    """
    rest = list(args)
    size = options.pop("size", None)
    if size is None:
        if not rest or isinstance(rest[-1], (int, float)):
            raise TypeError(
                "randint() received an invalid combination of arguments: expected (high, size) or (low, high, size)"
            )
        size = rest.pop()
    low, high = _bounds("randint", rest, options)
    shape = shape_argument("randint", (size,))
    made = new_tensor("randint", draws.randint, shape, options, int64, low, high)
    _tell_gaps(made.dtype, low, high)
    return made


def _bounds(name: str, given: list[Any], options: dict[str, Any]) -> tuple[int, int]:
    low, high = options.pop("low", None), options.pop("high", None)
    for value in reversed(given):
        if high is None:
            high = value
        elif low is None:
            low = value
        else:
            raise TypeError(f"{name}() received an invalid combination of arguments")
    if high is None:
        raise TypeError(f"{name}() missing a required argument: 'high'")
    place = f"(position {len(given)}) " if given else ""
    return _whole(name, 0 if low is None else low), _whole(name, high, f"argument 'high' {place}".rstrip())


def _whole(name: str, value: Any, argument: str = "argument") -> int:
    if isinstance(value, (bool, float)) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}(): {argument} must be int, not {type(value).__name__}")
    return int(value.__index__())


def _tell_gaps(d: dtype, low: int, high: int) -> None:
    """Warns of integers that a floating dtype has no numbers for: between them some are never drawn."""
    digits = SIGNIFICAND_BITS.get(d.numpy)
    for name, bound in (("from", low), ("to - 1", high - 1)):
        if digits is not None and abs(bound) > 1 << digits:
            warn_user(
                f"{name} is out of bounds [-(2^{digits}), 2^{digits}]. {type_name(d)} holds only some of the integers "
                "beyond them, so the others are never drawn."
            )


@drawn(permutation)
@public(method=False)
def randperm(n: int, *, generator: Any = None, out: Any = None, dtype: Any = None, **options: Any) -> Tensor:
    """A random order of the numbers from 0 to n - 1.

    >>> import flambeau as torch
    >>> torch.randperm(4).sort().values
    tensor([0, 1, 2, 3])
    """
    if local.batches:
        return mapped.each(lambda: randperm(n, generator=generator, out=out, dtype=dtype, **options))
    d = as_dtype(dtype, "randperm") or (out.dtype if out is not None else int64)
    n = _whole("randperm", n)
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    check_layout(options.pop("layout", None), options.pop("pin_memory", False))
    k, index = device_bits(options.pop("device", None))
    if k & META:
        return finished(memory((n,), d, k, index), d, k)
    made = draw(draws.randperm, engine_of(generator, "randperm", k), d, n, d.numpy)
    if out is not None:
        return write_out(out, made, "randperm")
    if k & CUDA:
        made = ops.to_device(made, d, ops.zeros(0, device="cuda").device)
    return finished(made._array, d, k, options.pop("requires_grad", False))


@_quickly(MersenneState.write_floats)
@public(method=False)
def rand_like(input: Tensor, **options: Any) -> Tensor:
    """Uniform random numbers in [0, 1), in the shape and dtype of `input`."""
    return _made_like("rand_like", draws.uniform, input, options)


@_quickly(transforms.write_normals)
@public(method=False)
def randn_like(input: Tensor, **options: Any) -> Tensor:
    """Normal random numbers in the shape and dtype of `input`."""
    return _made_like("randn_like", transforms.normal, input, options)


@public(method=False)
def randint_like(input: Tensor, *args: Any, **options: Any) -> Tensor:
    """Random integers in [low, high), in the shape and dtype of `input`."""
    low, high = _bounds("randint_like", [number_of(a, "randint_like", "high") for a in args], options)
    return _made_like("randint_like", draws.randint, input, options, low, high)


# -- in place ----------------------------------------------------------------------------------------------------


def _pair(name: str, args: tuple[Any, ...], named: dict[str, Any], **defaults: float) -> list[float]:
    """Two numbers given by place or name (`from` cannot be a parameter's name in Python)."""
    values = dict(zip(defaults, args))
    if len(args) > len(defaults) or any(key not in defaults or key in values for key in named):
        raise TypeError(f"{name}() received an invalid combination of arguments")
    values.update(named)
    return [float(number_of(values.get(key, value), name, key)) for key, value in defaults.items()]


def _plain_target(t: Any, *numbers: Any) -> bool:
    """Whether dense single precision without history is to be filled, with plain numbers as parameters."""
    if not isinstance(t, Tensor) or t.dtype is not float32 or local.batches or modes.inferring is not None:
        return False
    if t._k and (t._k != GRAD or local.grad):
        return False
    if t._autograd_meta is not None and t._autograd_meta.inference:
        return False
    flags = t._array.flags
    if not flags.c_contiguous or not flags.writeable:
        return False
    return all([n.__class__ is float or n.__class__ is int for n in numbers])


def _quick_uniform(input: Any, low: Any = 0.0, high: Any = 1.0, *more: Any) -> Any:
    if more or not _plain_target(input, low, high) or not -_LIMIT <= low <= high <= min(_LIMIT, low + _LIMIT):
        return NotImplemented
    engine = default_generator._engine
    with drawing(engine):
        engine.write_floats(input._array, low, high)
    bump(input)
    return input


_LIMIT = float(np.finfo(np.float32).max)


@quick(_quick_uniform)
@public("Tensor.uniform_")
def uniform_(input: Tensor, *args: Any, generator: Any = None, **named: Any) -> Tensor:
    """Fills with uniform random numbers in [from, to), by default [0, 1)."""
    low, high = _pair("uniform_", args, named, **{"from": 0.0, "to": 1.0})
    if input.dtype.category >= FLOATING:
        limit = float(np.finfo(input.dtype.numpy).max) if input.dtype.numpy.kind in "fc" else 3.3895313892515355e38
        if low > high:
            raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}")
        if abs(low) > limit or abs(high) > limit:
            raise RuntimeError(f"uniform_: from={low:g} or to={high:g} is out of bounds for {type_name(input.dtype)}")
        if high - low > limit:
            raise RuntimeError(
                f"uniform_ expects to-from <= the greatest {type_name(input.dtype)} ({limit:g}), but found to={high:g} and "
                f"from={low:g}, whose difference exceeds it"
            )
    return fill(input, "uniform", draws.uniform, generator, low, high)


def _quick_normal(input: Any, mean: Any = 0.0, std: Any = 1.0, *more: Any) -> Any:
    if more or not _plain_target(input, mean, std) or not std >= 0:
        return NotImplemented
    engine, array = default_generator._engine, input._array
    with drawing(engine):
        if not transforms.write_normals(engine, array, float(mean), float(std)):
            array[...] = transforms.normal(engine, array.shape, array.dtype, float(mean), float(std))
    bump(input)
    return input


@quick(_quick_normal)
@public("Tensor.normal_")
def normal_(input: Tensor, mean: float = 0, std: float = 1, *, generator: Any = None) -> Tensor:
    """Fills with normal random numbers."""
    mean, std = float(number_of(mean, "normal_", "mean")), float(number_of(std, "normal_", "std"))
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    return fill(input, "normal", transforms.normal, generator, mean, std)


@public("Tensor.random_")
def random_(input: Tensor, *args: Any, generator: Any = None, **named: Any) -> Tensor:
    """Fills with random integers: random_(to), random_(from, to), or over the whole range of the dtype."""
    rest = list(args)
    low = named.pop("from", None)
    high = named.pop("to", None)
    if len(rest) == 2 or (rest and high is not None):
        low = rest.pop(0)
    if rest:
        high = rest.pop(0)
    if rest or named:
        raise TypeError("random_() received an invalid combination of arguments")
    if high is None:
        if low is None:
            return fill(input, "random", draws.random_full, generator)
        return fill(input, "random", draws.random_from, generator, _whole("random_", low), None)
    low, high = 0 if low is None else _whole("random_", low), _whole("random_", high)
    fill(input, "random", draws.randint, generator, low, high)
    _tell_gaps(input.dtype, low, high)
    return input


def chosen_there(k: int, engine: MersenneState, d: dtype, chances: Tensor) -> Tensor:
    """Zeros, and ones with the probabilities that a tensor on a GPU has."""
    backend, kind = backend_of(k), float64 if chances.dtype is float64 else float32
    array = chances._array
    drawn = draw_at(k, draws.uniform, engine, kind, array.shape, kind.numpy)._array
    made = backend.empty(array.shape, d.numpy)
    call = backend.kernel(_choose, (kind.code, chances.dtype.code, d.code, "i64"))
    call(drawn, array, made, backend.errors.place("chance", array.shape))
    return wrap(made, d, CUDA)


@kernel("(),()->(),()")
def _choose(m: Any, drawn: Any, chance: Any, out: Any, wrong: Any) -> None:
    """One where a number is below a chance, which it tells of if it is none."""
    p, kind = chance[()], COMPUTE.get(out.type, out.type)
    out[()] = m.where(drawn[()] < p, m.value(1, kind), m.value(0, kind))
    if ~((p >= 0.0) & (p <= 1.0)):
        wrong[()] = m.value(1, "i64")


@public("Tensor.bernoulli_")
def bernoulli_(input: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Fills with 0 and 1; `p` is the probability of 1, a number or a tensor."""
    if not isinstance(p, Tensor):
        return fill(input, "bernoulli", draws.bernoulli, generator, float(number_of(p, "bernoulli_", "p")))
    if local.batches:
        return mapped.filled(lambda t, p: bernoulli_(t, p, generator=generator), input, p)
    check_writable(input)
    engine = engine_of(generator, "bernoulli_", input._k)
    node = history_of("bernoulli", input, p)
    if not input._k & META:
        order = _memory_order(input._array)
        if input._k & CUDA:
            wide = ops.permute(ops.expand(ops.detach(p), input._array.shape), order)
            values = chosen_there(CUDA, engine, input.dtype, wide)
        else:
            chances = np.broadcast_to(host_array(p), input._array.shape).transpose(order)
            values = draw(draws.bernoulli_tensor, engine, input.dtype, chances, input.dtype.numpy)
        values = ops.permute(values, sorted(range(len(order)), key=order.__getitem__))
        assign(input, values, "bernoulli", check=False)
    if node is not None:
        rewrite_history(input, (node, 0))
    if input._k & DUAL:
        ops.zero_(input._autograd_meta.tangent)  # type: ignore[union-attr]
    return input


@public("Tensor.exponential_")
def exponential_(input: Tensor, lambd: float = 1, *, generator: Any = None) -> Tensor:
    """Fills with random numbers of the exponential distribution."""
    return fill(
        input, "exponential", transforms.exponential, generator, float(number_of(lambd, "exponential_", "lambd"))
    )


@public("Tensor.geometric_")
def geometric_(input: Tensor, p: float, *, generator: Any = None) -> Tensor:
    """Fills with numbers of trials up to the first success."""
    return fill(input, "geometric", transforms.geometric, generator, float(number_of(p, "geometric_", "p")))


@public("Tensor.log_normal_")
def log_normal_(input: Tensor, mean: float = 1, std: float = 2, *, generator: Any = None) -> Tensor:
    """Fills with exponentials of normal random numbers."""
    return fill(input, "log_normal", transforms.log_normal, generator, float(mean), float(std))


@public("Tensor.cauchy_")
def cauchy_(input: Tensor, median: float = 0, sigma: float = 1, *, generator: Any = None) -> Tensor:
    """Fills with random numbers of the Cauchy distribution."""
    return fill(input, "cauchy", transforms.cauchy, generator, float(median), float(sigma))


SCHEMAS = """
rand|randn(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
rand|randn.generator(SymInt[] size, *, Generator? generator, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
randint(SymInt high, SymInt[] size, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
randint.generator(SymInt high, SymInt[] size, *, Generator? generator, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
randint.low(SymInt low, SymInt high, SymInt[] size, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
randint.low_generator(SymInt low, SymInt high, SymInt[] size, *, Generator? generator, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
randperm(SymInt n, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
randperm.generator(SymInt n, *, Generator? generator, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
rand_like|randn_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
rand_like|randn_like.generator(Tensor self, *, Generator? generator, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
randint_like(Tensor self, SymInt high, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
randint_like.Tensor(Tensor self, Tensor high, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
randint_like.low_dtype(Tensor self, SymInt low, SymInt high, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
randint_like.generator(Tensor self, SymInt high, *, Generator? generator, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
randint_like.Tensor_generator(Tensor self, Tensor high, *, Generator? generator, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
randint_like.low_generator_dtype(Tensor self, SymInt low, SymInt high, *, Generator? generator, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
uniform_(Tensor(a!) self, float from=0., float to=1., *, Generator? generator=None) -> Tensor(a!)
normal_(Tensor(a!) self, float mean=0., float std=1., *, Generator? generator=None) -> Tensor(a!)
random_.from(Tensor(a!) self, int from, int? to, *, Generator? generator=None) -> Tensor(a!)
random_.to(Tensor(a!) self, int to, *, Generator? generator=None) -> Tensor(a!)
random_(Tensor(a!) self, *, Generator? generator=None) -> Tensor(a!)
bernoulli_.Tensor(Tensor(a!) self, Tensor p, *, Generator? generator=None) -> Tensor(a!)
bernoulli_.float(Tensor(a!) self, float p=0.5, *, Generator? generator=None) -> Tensor(a!)
exponential_(Tensor(a!) self, float lambd=1., *, Generator? generator=None) -> Tensor(a!)
geometric_(Tensor(a!) self, float p, *, Generator? generator=None) -> Tensor(a!)
log_normal_(Tensor(a!) self, float mean=1., float std=2., *, Generator? generator=None) -> Tensor(a!)
cauchy_(Tensor(a!) self, float median=0., float sigma=1., *, Generator? generator=None) -> Tensor(a!)
"""
