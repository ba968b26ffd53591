"""Samples from distributions that tensors give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._backend.cpu import cpu
from ..._core import random_draws as draws
from ..._core import random_samplers as samplers
from ..._core import random_transforms as transforms
from ..._core.allocation import empty
from ..._core.dtypes import FLOATING, default, dtype, float32, float64, int64
from ..._core.layouts import contiguous_format
from ..._core.state import CUDA, DUAL, GRAD, META, local, modes
from ..._dispatch import backend_of
from ..._kernel.random.choosing import earliest, no_chances, no_weights, ones, places
from ..._tensor import Tensor, wrap
from ..records import tangents
from ..records.batching import is_differentiated
from ..records.casting import broadcast_error
from ..records.out import resize_out, write_out
from ..records.refusals import refusal
from ..records.rewriting import rewrite_history
from ..records.rules import not_implemented, type_name
from ..registry import ops, public, relabel
from . import random
from .conversion import host_array
from .drawing import drawn, scaled_normals
from .factory import memory, shape_argument
from .generator import Generator, draw, draw_at, engine_of, words_of
from .implicit import drawn_dirichlet, drawn_gamma
from .random import bernoulli_, chosen_there, history_of, new_tensor

NONE = type(None)
_SMALL = 1 << 12  # elements that kernels draw for at once


def _sampled(
    name: str, function: Callable[..., Any], generator: Any, d: dtype, sources: tuple[Any, ...], *args: Any, there: Any = None
) -> Tensor:  # fmt: skip
    """Samples drawn for the elements of tensors; gradients through them are zero. `there(bits, engine, d, *sources)` draws them on a GPU;
    without that, the CPU does."""
    if local.batches:
        return random.mapped.sampled(lambda *sources: getattr(ops, name)(*sources, generator=generator), sources)
    k = 0
    for t in sources:
        if isinstance(t, Tensor):
            k |= t._k & (CUDA | META)
    engine = engine_of(generator, name, k)
    if k & META:
        shape = np.broadcast_shapes(*[t._array.shape for t in sources if isinstance(t, Tensor)])
        values = wrap(memory(shape, d, META), d, META)
    elif k & CUDA and there is not None:
        values = there(k, engine, d, *[ops.detach(t) if isinstance(t, Tensor) else t for t in sources])
    else:
        values = draw(function, engine, d, *[host_array(t) if isinstance(t, Tensor) else t for t in sources], *args)
        if k & CUDA:
            values = wrap(backend_of(CUDA).from_numpy(values._array), d, CUDA)
    drawn_for(name, values, [t for t in sources if isinstance(t, Tensor)])
    return values


_DIFFERENTIABLE = {"_standard_gamma": drawn_gamma, "_sample_dirichlet": drawn_dirichlet}


def drawn_for(name: str, values: Tensor, sources: list[Tensor], written: bool = False) -> None:
    """Gives random values the history of the tensors that they were drawn for, or written into."""
    through = _DIFFERENTIABLE.get(name)
    if through is not None and is_differentiated(*sources):
        through.record((*sources, ops.detach(values)), values)
        return
    node = history_of(name.rstrip("_"), *sources) if values.dtype.category >= FLOATING else None
    if node is not None and written:
        rewrite_history(values, (node, 0))
    elif node is not None:
        values._edge, values._k = (node, 0), values._k | GRAD
    if local.duals is not None and any(t._k & DUAL for t in sources):
        tangents.set_tangent(values, ops.zeros_like(values))


def _check_floating(name: str, t: Any) -> None:
    if t.dtype.category != FLOATING:
        raise not_implemented(name, t.dtype)


def _normal_of_tensors(engine: Any, mean: Any, std: Any, numpy_dtype: Any) -> Any:
    if isinstance(std, np.ndarray) and not bool((std >= 0).all()):
        raise RuntimeError("normal expects all elements of std >= 0.0")
    return transforms.normal_tensor(engine, mean, std, numpy_dtype)


def _normal_there(k: int, engine: Any, d: dtype, mean: Any, std: Any) -> Tensor:
    if isinstance(std, Tensor) and not bool(ops.all(ops.ge(std, 0))):
        raise RuntimeError("normal expects all elements of std >= 0.0")
    shape = np.broadcast_shapes(*[t._array.shape for t in (mean, std) if isinstance(t, Tensor)])
    return ops.to_dtype(ops.add(ops.mul(draw_at(k, transforms.normal, engine, d, shape, d.numpy), std), mean), d)


@drawn(scaled_normals)
@public(method=False)
def normal(
    mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: Any = None, out: Any = None, **options: Any
) -> Tensor:
    """Normal random numbers with a mean and deviation for each element, or for all elements of a size.

    >>> import flambeau as torch
    >>> torch.normal(torch.zeros(3), 1.0).shape
    torch.Size([3])
    """
    if not isinstance(mean, Tensor) and not isinstance(std, Tensor):
        if size is None:
            raise TypeError("normal() received an invalid combination of arguments: a size is needed with two numbers")
        if std < 0:
            raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
        options.update(generator=generator, out=out)
        return new_tensor(
            "normal",
            transforms.normal,
            shape_argument("normal", (size,)),
            options,
            default.float,
            float(mean),
            float(std),
        )
    for t in (mean, std):
        if isinstance(t, Tensor) and t.dtype.category == FLOATING - 1:
            raise not_implemented("normal_kernel_cpu", t.dtype)
    if isinstance(std, Tensor):
        if std.dtype.is_complex:
            raise RuntimeError("normal expects standard deviation to be non-complex")
    elif std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    d = (mean if isinstance(mean, Tensor) else std).dtype
    if isinstance(mean, Tensor) and isinstance(std, Tensor):
        try:
            np.broadcast_shapes(mean._array.shape, std._array.shape)
        except ValueError:
            raise broadcast_error((mean, std)) from None
    there = None if d.is_complex else _normal_there
    made = _sampled("normal", _normal_of_tensors, generator, d, (mean, std), d.numpy, there=there)
    relabel(made, f"NormalBackward{isinstance(mean, Tensor) + 2 * isinstance(std, Tensor)}")
    return made if out is None else write_out(out, made, "normal")


def _is_small(x: Tensor, generator: Any) -> bool:
    """Whether kernels draw for a tensor, unless their arguments are wrong: what then is the matter others say."""
    if (
        x._k | modes.on
        or local.batches
        or not 0 < x._array.size <= _SMALL
        or generator.__class__ not in (NONE, Generator)
    ):
        return False
    return x.dtype is float32 and bool(x._array.flags.c_contiguous)


def _answer(call: Any, x: Any) -> bool:
    """What a kernel says of the rows of an array."""
    found = empty(x.shape[:-1], np.dtype(np.bool_))
    cpu.small(call, ("f32", "b1"))(x, found)
    return bool(found.any()) if found.ndim else bool(found)


def _few_ones(x: Any, generator: Any) -> Tensor | None:
    """`bernoulli` of few probabilities; None if one is none."""
    flat = x.reshape(-1)
    if _answer(no_chances, flat):
        return None
    made = empty(x.shape, x.dtype)
    cpu.small(ones, ("u32", "f32", "f32"))(words_of(generator, flat.size, "bernoulli"), flat, made.reshape(-1))
    return wrap(made, float32)


def _few_places(x: Any, count: int, replacement: bool, generator: Any) -> Tensor | None:
    """`multinomial` of few weights; None if they are none, or are drawn in another way."""
    once = count == 1
    if not (once or replacement) or x.size * count > _SMALL or _answer(no_weights, x):
        return None
    each = x.shape[-1] if once else count
    words = words_of(generator, 2 * each * (x.size // x.shape[-1]), "multinomial").reshape(*x.shape[:-1], 2 * each)
    made = empty((*x.shape[:-1], count), int64.numpy)
    call = cpu.small(earliest if once else places, ("f32", "u32", "i64"))
    call(x, words, made[..., 0] if once else made)
    return wrap(made, int64)


@public(planned=True)
def bernoulli(input: Tensor, p: Any = None, *, generator: Any = None, out: Any = None) -> Tensor:
    """0 and 1, where each element of `input` is the probability of 1 (or `p` is, for all).

    >>> import flambeau as torch
    >>> torch.bernoulli(torch.tensor([0.0, 1.0]))
    tensor([0., 1.])
    """
    if p is not None:
        if local.batches and not isinstance(p, Tensor):
            made = random.mapped.like(lambda t: bernoulli(t, p, generator=generator), input)
        else:
            made = bernoulli_(ops.empty_like(input, memory_format=contiguous_format), p, generator=generator)
        return made if out is None else write_out(out, made, "bernoulli")
    if out is not None and isinstance(out, Tensor) and out.dtype is not input.dtype:  # zeros and ones fit every dtype
        resize_out(out, input._array.shape)
        return bernoulli_(out, input, generator=generator)
    if _is_small(input, generator) and (few := _few_ones(input._array, generator)) is not None:
        return few if out is None else write_out(out, few, "bernoulli")
    _check_floating("bernoulli_tensor_cpu_p_", input)
    made = _sampled(
        "bernoulli", draws.bernoulli_tensor, generator, input.dtype, (input,), input.dtype.numpy, there=chosen_there
    )
    return made if out is None else write_out(out, made, "bernoulli")


@public(planned=True)
def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Any = None, out: Any = None
) -> Tensor:
    """Indices drawn with the weights in the last dimension of `input`.

    >>> import flambeau as torch
    >>> torch.multinomial(torch.tensor([0.0, 1.0]), 3, replacement=True)
    tensor([1, 1, 1])
    """
    array = input._array
    if array.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if input.dtype.category != FLOATING:
        kind = type_name(input.dtype)
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {kind}")
    if out is not None and out.dtype is not int64:
        raise RuntimeError(f"multinomial expects Long tensor out, got: {type_name(out.dtype)}")
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > array.shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    if local.batches:
        return random.mapped.sampled(lambda t: _multinomial_rows(t, num_samples, replacement, generator), (input,))
    if input._k & META:
        return ops.empty((*array.shape[:-1], num_samples), dtype=int64, device="meta")
    if _is_small(input, generator) and (few := _few_places(array, num_samples, replacement, generator)) is not None:
        return few if out is None else write_out(out, few, "multinomial")
    engine = engine_of(generator, "multinomial", input._k)
    if input._k & CUDA:
        made = _multinomial_there(input._k & CUDA, engine, ops.detach(input), num_samples, replacement)
    else:
        weights = host_array(input)
        wide = weights.astype(np.float32) if weights.dtype.itemsize == 2 else weights
        _check_weights(bool(((wide >= 0) & (wide < np.inf)).all()), not array.size or bool((wide.sum(-1) > 0).all()))
        made = draw(transforms.multinomial, engine, int64, weights, num_samples, replacement)
    return made if out is None else write_out(out, made, "multinomial")


def _check_weights(usable: bool, positive: bool) -> None:
    if not usable:
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if not positive:
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")


@refusal
def _weights_there(backend: Any, x: Any) -> None:
    least, largest, least_sum, _ = backend.along.extents(x, "sum")
    _check_weights(least >= 0 and largest < np.inf, least_sum > 0)


def _multinomial_there(k: int, engine: Any, weights: Tensor, count: int, replacement: bool) -> Tensor:
    """On a GPU: the places of the largest among weights divided by waiting times, which come in the order of the weights; several draws
    with replacement are looked up among the sums of the weights before each."""
    d = weights.dtype if weights.dtype.itemsize > 2 else float32
    weights = ops.to_dtype(weights, d)
    _weights_there(weights)
    if replacement and count > 1:
        sums = ops.cumsum(ops.to_dtype(weights, float64), -1)
        shape = (*sums._array.shape[:-1], count)
        places = ops.mul(draw_at(k, draws.uniform, engine, float64, shape, float64.numpy), ops.narrow(sums, -1, -1, 1))
        return ops.clamp_max(ops.searchsorted(sums, places, right=True), sums._array.shape[-1] - 1)
    times = draw_at(k, transforms.exponential, engine, d, weights._array.shape, d.numpy, 1.0)
    order = ops.div(weights, times)
    return ops.argmax(order, -1, True) if count == 1 else ops.topk(order, count)[1]


def _multinomial_rows(input: Tensor, num_samples: int, replacement: bool, generator: Any) -> Tensor:
    """`multinomial` of any number of dimensions."""
    *lead, n = input._array.shape
    made = ops.multinomial(ops.reshape(input, (-1, n)), num_samples, replacement, generator=generator)
    return ops.reshape(made, (*lead, num_samples))


@public(method=False)
def poisson(input: Tensor, generator: Any = None) -> Tensor:
    """Random counts, where each element of `input` is the rate.

    >>> import flambeau as torch
    >>> torch.poisson(torch.zeros(2))
    tensor([0., 0.])
    """
    _check_floating("poisson_cpu", input)
    return _sampled("poisson", samplers.poisson, generator, input.dtype, (input,))


@public(method=False)
def binomial(count: Tensor, prob: Tensor, generator: Any = None) -> Tensor:
    """Random numbers of successes among `count` trials of probability `prob`."""
    for name, t in (("count", count), ("prob", prob)):
        if t.dtype.category != FLOATING:
            raise ValueError(f"binomial only supports floating-point dtypes for {name}, got: {type_name(t.dtype)}")
    if count.dtype is not prob.dtype:
        raise RuntimeError(f"Found dtype {type_name(prob.dtype)} but expected {type_name(count.dtype)}")
    return _sampled("binomial", samplers.binomial, generator, count.dtype, (count, prob))


@public(method=False)
def _standard_gamma(input: Tensor, generator: Any = None) -> Tensor:
    """Samples of the gamma distribution with the shape parameters in `input`, differentiable by them."""
    drawn = _sampled("_standard_gamma", samplers.standard_gamma, generator, input.dtype, (ops.detach(input),))
    return drawn_gamma(input, drawn) if is_differentiated(input) else drawn


@public(method=False)
def _sample_dirichlet(input: Tensor, generator: Any = None) -> Tensor:
    """Samples of the Dirichlet distribution with the concentrations in `input`, differentiable by them."""
    drawn = _sampled("_sample_dirichlet", samplers.dirichlet, generator, input.dtype, (ops.detach(input),))
    return drawn_dirichlet(input, drawn) if is_differentiated(input) else drawn


SCHEMAS = """
normal.Tensor_float(Tensor mean, float std=1., *, Generator? generator=None) -> Tensor
normal.float_Tensor(float mean, Tensor std, *, Generator? generator=None) -> Tensor
normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor
normal.float_float(float mean, float std, SymInt[] size, *, Generator? generator=None, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
normal.out(Tensor self, float mean=0., float std=1., *, Generator? generator=None, Tensor(a!) out) -> Tensor(a!)
bernoulli(Tensor self, *, Generator? generator=None) -> Tensor
bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor
bernoulli.Tensor(Tensor self, Tensor p, *, Generator? generator=None) -> Tensor
bernoulli.float_out(Tensor self, float p=0.5, *, Generator? generator=None, Tensor(a!) out) -> Tensor(a!)
multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor
poisson|_standard_gamma|_sample_dirichlet(Tensor self, Generator? generator=None) -> Tensor
binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor
"""
