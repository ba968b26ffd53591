"""The mean of gradients, also in half precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...._core.dtypes import bfloat16, float16
from ...._tensor import Tensor
from ....futures import Future
from ... import _collectives
from ..._groups import current

__all__ = [
    "allreduce_hook", "bf16_compress_hook", "bf16_compress_wrapper", "fp16_compress_hook", "fp16_compress_wrapper",
]  # fmt: skip


def _mean(group: Any, tensor: Tensor) -> Future:
    group = current(group)
    tensor.div_(group.size())
    work: Any = _collectives.all_reduce(tensor, group=group, async_op=True)
    return work.get_future().then(lambda done: done.value()[0])


def allreduce_hook(process_group: Any, bucket: Any) -> Future:
    """The mean, as without a hook."""
    return _mean(process_group, bucket.buffer())


def _compressed(group: Any, bucket: Any, dtype: Any) -> Future:
    whole = bucket.buffer()
    sent = whole.to(dtype)

    def widen(done: Future) -> Tensor:
        whole.copy_(done.value())
        return whole

    return _mean(group, sent).then(widen)


def fp16_compress_hook(process_group: Any, bucket: Any) -> Future:
    """The mean of gradients that travel as float16."""
    return _compressed(process_group, bucket, float16)


def bf16_compress_hook(process_group: Any, bucket: Any) -> Future:
    """The mean of gradients that travel as bfloat16."""
    return _compressed(process_group, bucket, bfloat16)


def _wrapper(hook: Callable[[Any, Any], Future], dtype: Any) -> Callable[[Any, Any], Future]:
    def wrapped(state: Any, bucket: Any) -> Future:
        whole = bucket.buffer()
        bucket.set_buffer(whole.to(dtype))

        def widen(done: Future) -> Tensor:
            whole.copy_(done.value())
            return whole

        return hook(state, bucket).then(widen)

    return wrapped


def fp16_compress_wrapper(hook: Callable[[Any, Any], Future]) -> Callable[[Any, Any], Future]:
    """The hook on gradients as float16."""
    return _wrapper(hook, float16)


def bf16_compress_wrapper(hook: Callable[[Any, Any], Future]) -> Callable[[Any, Any], Future]:
    """The hook on gradients as bfloat16."""
    return _wrapper(hook, bfloat16)
