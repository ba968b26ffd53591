"""How tensors are pickled for another process: as the descriptor of their memory, which is shared first."""

from __future__ import annotations

import time
import weakref
from multiprocessing import parent_process, resource_sharer, util
from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any

import numpy as np

from .._autograd.node import is_leaf
from .._backend import segments
from .._core.state import GRAD
from .._ops.layout.storages import raw_bytes
from .._ops.layout.striding import address
from .._tensor import Storage, Tensor
from ..nn.parameter import Buffer, Parameter

_PROTOCOL = 4
_PATIENCE = 2.0  # seconds that a process which ends waits for those who have not fetched what it sent
_BEFORE_SOCKETS = 1  # whose names go at 0
_AFTER_QUEUES = -50  # which are flushed at -5; the socket that receivers ask goes at -100


class StorageWeakRef:
    """Memory that somebody may let go of: two are equal if they are of the same memory, also once it is gone.

    >>> import flambeau as torch
    >>> from flambeau.multiprocessing.reductions import StorageWeakRef
    >>> x = torch.ones(2)
    >>> kept = StorageWeakRef(x.untyped_storage())
    >>> kept == StorageWeakRef(x.view(1, 2).untyped_storage()), kept.expired()
    (True, False)
    >>> del x
    >>> kept.expired()
    True
    """

    def __init__(self, storage: Any) -> None:
        memory = storage.untyped()._memory if hasattr(storage, "untyped") else storage._memory
        self.cdata = id(memory)
        self._reference = weakref.ref(memory)

    def expired(self) -> bool:
        """Whether nobody has the memory any more."""
        return self._reference() is None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageWeakRef) and (self is other or self._reference == other._reference)

    def __hash__(self) -> int:
        return self.cdata


def reduce_tensor(t: Tensor) -> Any:
    """A tensor whose memory is shared from now on."""
    if t._k & GRAD and not is_leaf(t):
        raise RuntimeError(
            "a tensor that was computed from others that require grad cannot go to another process: send t.detach()"
        )
    t.share_memory_()
    return t.__reduce_ex__(_PROTOCOL)


def reduce_storage(storage: Storage) -> Any:
    """Memory by its descriptor."""
    raw = raw_bytes(storage)
    if not isinstance(raw, np.ndarray) or not raw.size:
        return storage.__reduce_ex__(_PROTOCOL)
    raw = segments.share(raw)
    segment = segments.segment_of(raw)
    assert segment is not None
    start = address(raw) - segment.address
    return rebuild_storage_fd, (DupFd(segment.descriptor), segment.nbytes, start, raw.size)


def _until_received() -> None:
    """Receivers ask the sender for the descriptor: a worker that puts its result into a queue and ends would be gone by then."""
    sharer: Any = resource_sharer._resource_sharer  # type: ignore[attr-defined]
    if parent_process() is None or not getattr(sharer, "_key", 0):  # the first process, or one that has sent nothing
        return
    end = time.monotonic() + _PATIENCE
    while sharer._cache and time.monotonic() < end:
        time.sleep(0.001)
    time.sleep(0.01)  # the last one is on its way


def _keep_address() -> None:
    """Receivers find the socket until its folder goes: it would be the first thing to go when the process ends."""
    if parent_process() is None:
        return
    sharer: Any = resource_sharer._resource_sharer  # type: ignore[attr-defined]
    with sharer._lock:  # the thread of a queue may be about to make it
        unlink = getattr(getattr(sharer._listener, "_listener", None), "_unlink", None)
        if unlink is not None:
            unlink.cancel()
    util.Finalize(None, _keep_address, exitpriority=_BEFORE_SOCKETS)  # a process that ends goes through them twice


def _wait_at_exit(_: Any = None) -> None:
    util.Finalize(None, _keep_address, exitpriority=_BEFORE_SOCKETS)
    util.Finalize(None, _until_received, exitpriority=_AFTER_QUEUES)


def rebuild_storage_fd(handle: Any, total: int, start: int, nbytes: int) -> Storage:
    segment = segments.receive(handle.detach(), total)
    return Storage(np.asarray(segment)[start : start + nbytes])


def init_reductions() -> None:
    """Lets everything that `multiprocessing` pickles share the memory of tensors."""
    _wait_at_exit()
    util.register_after_fork(_wait_at_exit, _wait_at_exit)  # processes that are forked begin without
    ForkingPickler.register(Storage, reduce_storage)
    for kind in (Tensor, Parameter, Buffer):
        ForkingPickler.register(kind, reduce_tensor)
