"""`Generator`: a stream of random numbers with PyTorch's seeds and states, and the draws that use one."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..._backend.cuda_watch import watching
from ..._backend.meta import empty_meta
from ..._backend.placement import as_device, bits, cuda_problem
from ..._core import allocation, random_samplers
from ..._core.allocation import not_planned
from ..._core.devices import device
from ..._core.dtypes import dtype, uint8
from ..._core.once import found_once
from ..._core.random import DEFAULT_SEED, MersenneState, use_kernels
from ..._core.state import CAPTURE, CUDA, DRAWING, META, held_over_forks, local, modes
from ..._core.steps import python_step
from ..._dispatch import backend_of
from ..._kernel.native.site import forget_all
from ..._kernel.random import samplers, stream
from ..._tensor import Tensor, wrap
from ..records.primitive import primitive
from ..records.shape_rules import data_dependent

use_kernels(stream.Loops())
random_samplers.use_native(samplers.bulk)


class Generator:
    """A source of random numbers of its own.

    >>> import flambeau as torch
    >>> torch.rand(2, generator=torch.Generator().manual_seed(0))
    tensor([0.4963, 0.7682])
    """

    def __init__(self, device: Any = "cpu"):
        self._device = as_device(device)
        if self._device.type not in ("cpu", "cuda"):
            raise RuntimeError(f"{self._device.type.upper()} device type not an accelerator.")
        bits(self._device)
        if modes.on & CAPTURE and local.captures:  # each run of a program finds it new
            self.manual_seed(DEFAULT_SEED)

    @found_once
    def _engine(self) -> MersenneState:
        engine = MersenneState()  # at the first use: it loads machine code
        if self is default_generator:  # the one that threads share
            held_over_forks(engine.lock, DRAWING)
        return engine

    @property
    def device(self) -> device:
        return self._device

    @python_step
    def manual_seed(self, seed: int) -> Generator:
        """Starts the stream that belongs to a seed."""
        with self._engine.lock:
            self._engine.seed(int(seed))
        return self

    @python_step
    def seed(self) -> int:
        """Starts a stream that nobody knows beforehand, and returns its seed."""
        chosen = int.from_bytes(os.urandom(8), "little")
        self.manual_seed(chosen)
        return chosen

    def initial_seed(self) -> int:
        """The seed that the stream was started with."""
        return int(self._engine.initial_seed)

    @python_step
    def get_state(self) -> Tensor:
        """Where the stream is, as a tensor of bytes."""
        with self._engine.lock:
            return wrap(self._engine.get_state(), uint8)

    @python_step
    def set_state(self, new_state: Tensor) -> Generator:
        """Continues where `get_state` was called."""
        if not isinstance(new_state, Tensor) or new_state.dtype is not uint8 or new_state._k > 1:
            raise TypeError("RNG state must be a torch.ByteTensor")
        with self._engine.lock:
            self._engine.set_state(new_state._array)
        return self

    def _key(self) -> int:
        with self._engine.lock:
            return self._engine.word64()

    def clone_state(self) -> Generator:
        """Another generator at the same place of the same stream."""
        other = Generator(self._device)
        other._engine = self._engine.clone()
        return other

    graphsafe_get_state = clone_state

    def graphsafe_set_state(self, new_state: Generator) -> Generator:
        self._engine = new_state._engine
        if self is default_generator:
            forget_all()  # plans draw from the one before
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (str(self._device), self._engine.get_state())


def _rebuild(where: str, state: Any) -> Generator:
    made = Generator(where)
    made._engine.set_state(state)
    return made


default_generator = Generator()


@functools.cache
def _cuda_default() -> Generator:
    return Generator("cuda")


def default_of(k: int) -> Generator:
    """The generator that tensors with these bits are drawn from if none is given."""
    return _cuda_default() if k & CUDA else default_generator


def has_gpu() -> bool:
    """Whether a GPU was looked for, and found."""
    return cuda_problem.cache_info().currsize > 0 and cuda_problem() is None


@contextmanager
def forked() -> Iterator[None]:
    """A block after which the default streams go on as if nothing had been drawn inside."""
    state, on_gpu = default_generator.get_state(), default_of(CUDA).get_state() if has_gpu() else None
    try:
        yield
    finally:
        default_generator.set_state(state)
        if on_gpu is not None:
            default_of(CUDA).set_state(on_gpu)


def engine_of(generator: Any, name: str, k: int = 0) -> MersenneState:
    """The stream behind a `generator=` argument."""
    if generator is None:
        return default_of(k)._engine
    if not isinstance(generator, Generator):
        raise TypeError(f"{name}(): argument 'generator' must be torch.Generator, not {type(generator).__name__}")
    return generator._engine


def drawing(engine: MersenneState) -> Any:
    """The lock under which numbers are drawn, by calls that no plan stands for: a call that is watched ends before the stream moves on."""
    not_planned()
    return engine.lock


def words_of(generator: Any, count: int, name: str) -> Any:
    """The next words of a stream, for kernels; a plan draws others each time it is carried out. Nothing may be asked after this."""
    engine, watch = engine_of(generator, name), allocation.watcher
    if watch is not None and watch.here():
        return watch.words(engine if engine is default_generator._engine else None, count)
    with engine.lock:
        return engine.words(count)


@primitive(meta=data_dependent, tensors=0, differentiable=False, name="random")
def draw_op(backend: Any, function: Callable[..., Any], engine: MersenneState, args: tuple[Any, ...]) -> Any:
    with drawing(engine):
        return function(engine, *args)


def draw(function: Callable[..., Any], engine: MersenneState, d: dtype, *args: Any) -> Tensor:
    """A new tensor of random numbers; seen by whoever records operations, since it is different each time."""
    if modes.on:
        return draw_op(function, engine, args)
    with drawing(engine):
        return wrap(np.asarray(function(engine, *args)), d)


def next_key(engine: MersenneState) -> Any:
    """The key of what a GPU draws next. What stands for it in a call that is watched becomes another number each time its plan is carried out."""
    watch, usual = watching(), _cuda_default()
    if watch is not None and engine is usual._engine:
        return watch.number(usual._key)
    with drawing(engine):
        return engine.word64()


def draw_at(
    k: int, function: Callable[..., Any], engine: MersenneState, d: dtype, shape: Any, *args: Any, into: Any = None
) -> Tensor:
    """`draw` on the device that the bits in `k` name: a GPU has numbers of its own for a key from the stream. It writes them into contiguous
    memory that is given, if it can."""
    if k & META:
        return wrap(empty_meta(shape, d), d, META)
    if not k & CUDA:
        return draw(function, engine, d, shape, *args)
    backend = backend_of(CUDA)
    made = backend.draw(
        function.__name__, next_key(engine), shape, d.code, [a for a in args if isinstance(a, (int, float))], into
    )
    return wrap(backend.from_numpy(draw(function, engine, d, shape, *args)._array) if made is None else made, d, CUDA)
