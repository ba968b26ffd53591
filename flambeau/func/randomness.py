"""Random numbers inside `vmap`: none, the same for all samples, or others for each, as its caller asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .._core.sizes import broadcast_shapes
from .._core.state import local
from .._ops.making import random
from .._ops.registry import ops
from .._tensor import Tensor
from .batched import in_front, make_batched, unwrap
from .fallback import as_written, function_rules, not_possible


@contextmanager
def _outside() -> Iterator[tuple[int, int, bool]]:
    """Leaves the innermost `vmap`: (its level, its batch size, whether its samples are to differ)."""
    inner = local.batches
    level, size, randomness = inner[-1]
    if randomness == "error":
        raise RuntimeError(
            "vmap: called random operation while in randomness error mode. Give vmap randomness='same' or 'different', or draw "
            "outside of it"
        )
    local.batches = inner[:-1]
    try:
        yield level, size, randomness == "different"
    finally:
        local.batches = inner


class _Drawing:
    """How the kinds of random functions run on a batch; each is given its function again, to call outside the vmap."""

    @staticmethod
    def new(make: Callable[[tuple[int, ...]], Tensor]) -> Tensor:
        """Functions of a size: make(dimensions that come before it)."""
        with _outside() as (level, size, different):
            return make_batched(make((size,)), 0, level) if different else make(())

    @staticmethod
    def each(make: Callable[[], Tensor]) -> Tensor:
        """Functions of other arguments: called for every sample."""
        with _outside() as (level, size, different):
            return make_batched(ops.stack([make() for _ in range(size)]), 0, level) if different else make()

    @staticmethod
    def like(make: Callable[[Tensor], Tensor], t: Tensor) -> Tensor:
        with _outside() as (level, size, different):
            front = in_front(t, level)
            if different:
                return make_batched(make(_repeated(t, size) if front is None else front), 0, level)
            return make(t if front is None else ops.select(front, 0, 0))

    @staticmethod
    def fill(make: Callable[[Tensor], Tensor], t: Tensor) -> Tensor:
        """Functions that write into their tensor."""
        with _outside() as (level, _, different):
            return _written(make, t, level, different)

    @staticmethod
    def filled(make: Callable[[Tensor, Tensor], Tensor], t: Tensor, source: Tensor) -> Tensor:
        """The same for numbers of distributions that another tensor describes."""
        with _outside() as (level, _, different):
            front = in_front(source, level)
            if front is None:
                return _written(lambda t: make(t, source), t, level, different)
            if not different:
                raise RuntimeError(_SAME_OF_BATCHED)
            if unwrap(t, level)[1] is None:
                raise not_possible("bernoulli_")
            return _written(lambda batch: make(batch, _aligned(front, t._array.shape)), t, level, different)

    @staticmethod
    def sampled(make: Callable[..., Tensor], sources: tuple[Any, ...]) -> Tensor:
        """Functions of distributions that tensors describe."""
        with _outside() as (level, size, different):
            fronts = [in_front(t, level) if isinstance(t, Tensor) else None for t in sources]
            if not different:
                if any(t is not None for t in fronts):
                    raise RuntimeError(_SAME_OF_BATCHED)
                return make(*sources)
            shape = broadcast_shapes(*[t._array.shape for t in sources if isinstance(t, Tensor)])
            batch = [
                t if not isinstance(t, Tensor) else _repeated(ops.expand(t, shape), size) if front is None
                else _aligned(front, shape) for t, front in zip(sources, fronts)
            ]  # fmt: skip
            return make_batched(make(*batch), 0, level)


_SAME_OF_BATCHED = (
    "Vmap does not currently support same randomness with a batched tensor input: the numbers would differ"
)


def _written(make: Callable[[Tensor], Tensor], t: Tensor, level: int, different: bool) -> Tensor:
    value, bdim = unwrap(t, level)
    if bdim is None:
        if different:
            raise RuntimeError(
                "vmap: Cannot ask for different inplace randomness on an unbatched tensor, which cannot hold numbers "
                "that differ between samples"
            )
        return make(t)
    if different:
        make(value if bdim == 0 else ops.movedim(value, bdim, 0))
    else:
        ops.copy_(value, ops.unsqueeze(make(ops.empty_like(ops.select(value, bdim, 0))), bdim))
    return t


def _repeated(t: Tensor, size: int) -> Tensor:
    return ops.expand(ops.unsqueeze(t, 0), (size, *t._array.shape))


def _aligned(front: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A batch whose samples are expanded to a shape."""
    size, *own = front._array.shape
    return ops.expand(ops.reshape(front, (size, *[1] * (len(shape) - len(own)), *own)), (size, *shape))


random.mapped = _Drawing
function_rules["bernoulli_"] = as_written  # says itself what it cannot do, first of all about randomness
