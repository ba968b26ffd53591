"""What nodes keep for the backward pass, with the user's hooks and the check that nobody wrote to it since."""

from __future__ import annotations

import traceback
from typing import Any

import numpy as np

from ..._autograd.node import Node, SavedOutput
from ..._core.state import GRAD, SAVED_HOOKS, local, modes
from ..._tensor import Storage, Tensor, alias, detached, refuse_inference, storage_of
from .rules import type_name

_new = object.__new__


def save(node: Node, args: tuple[Any, ...], plan: tuple[bool, ...], out: Tensor) -> None:
    """Keeps what the plan says: inputs as they are, the result without its history."""
    saved: list[Any] = []
    written = False
    for a, keep in zip(args, plan):
        if not keep:
            a = None
        elif isinstance(a, Tensor) and a._storage is not None and a._storage.version:
            written = True
        saved.append(a)
    if plan[-1]:
        written = written or out._storage is not None
        saved.append(SavedOutput(out, 0))
    else:
        saved.append(None)
    if modes.inferred:
        refuse_inference(saved)
    if modes.on & SAVED_HOOKS and local.saved_hooks:
        saved = [pack(s, node) for s in saved]
    node.saved = saved
    node.versions = versions_of(saved) if written else None


def versions_of(saved: Any) -> list[int] | None:
    """How often the memory of each saved tensor has been written to; None if never."""
    versions = None
    for i, s in enumerate(saved):
        storage = s.storage if s.__class__ is SavedOutput else s._storage if isinstance(s, Tensor) else None
        if storage is not None and storage.version:
            if versions is None:
                versions = [0] * len(saved)
            versions[i] = storage.version
    return versions


class Packed:
    """A saved tensor in the form that the user's pack hook gave it."""

    __slots__ = ("edge", "k", "number", "unpack", "value")
    edge: Any
    k: int
    number: int | None
    unpack: Any
    value: Any


def pack(s: Any, node: Node) -> Any:
    if not isinstance(s, (Tensor, SavedOutput)):
        return s
    return pack_with(s, node, *local.saved_hooks[-1])


def pack_with(s: Any, node: Node, pack_hook: Any, unpack_hook: Any) -> Packed:
    """A saved tensor as the hook packs it, which is shown the tensor with its history."""
    packed = Packed()
    packed.unpack, packed.k = unpack_hook, 0
    packed.edge = packed.number = None
    if isinstance(s, Tensor):
        packed.k, packed.edge = s._k, s._edge or ((s, 0) if s._k & GRAD else None)
        shown = s if s._edge is None else alias(s)
        storage_of(s)
    else:
        packed.k, packed.number = s.k, s.number
        shown = s.tensor(node)
    version = storage_of(shown).version
    outer, local.grad = local.grad, False
    try:
        packed.value = pack_hook(shown)
    finally:
        local.grad = outer
    if packed.value is shown and shown._edge is not None:  # of a result it would be a circle
        packed.value = detached(shown)
    if shown._storage is not None and shown._storage.version != version:
        raise RuntimeError(
            "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook can not be "
            "modified by in-place operations as this can lead to unexpected side-effects."
        )
    return packed


def unpack(node: Node) -> list[Any]:
    """A node's saved values as tensors; an error if one was written to since."""
    return [None if s is None else fetch(node, i) for i, s in enumerate(node.saved)]


def fetch(node: Node, i: int) -> Any:
    """One saved value as a tensor (or what it was)."""
    s = node.saved[i]
    kind = s.__class__
    if kind is SavedOutput:
        check_version(node, i, s.storage)
        return s.tensor(node)
    if kind is Packed:
        return unpacked(node, s)
    if isinstance(s, Tensor) and s._storage is not None:
        check_version(node, i, s._storage)
    return s


def value(node: Node, i: int) -> Any:
    """The same for who does not ask for its history."""
    s = node.saved[i]
    if s.__class__ is Tensor and s._storage is None:
        return s
    if s.__class__ is not SavedOutput or s.k & ~GRAD:
        return fetch(node, i)
    storage = s if s.shared is None else s.shared
    if storage.version:
        check_version(node, i, storage)
    t = _new(Tensor)
    t._array, t.dtype, t._k = s.array, s.dtype, 0
    t._edge = t._autograd_meta = t._storage = t._view = None
    return t


def check_version(node: Node, i: int, storage: Storage) -> None:
    """Raises if the memory of a saved tensor was written to after it was saved."""
    then = 0 if node.versions is None else node.versions[i]
    if storage.version != then:
        raise _modified(node, node.name(), node.saved[i], storage, then)


def check_versions(values: Any, versions: list[int] | None, keeper: str) -> None:
    """The same of values that something else than a node keeps."""
    for i, s in enumerate(values):
        storage = s._storage if isinstance(s, Tensor) else None
        then = 0 if versions is None else versions[i]
        if storage is not None and storage.version != then:
            raise _modified(None, keeper, s, storage, then)


def unpacked(node: Node, packed: Any) -> Tensor:
    value = packed.unpack(packed.value)
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {type(value).__name__}"
        )
    if packed.number is None and value._edge is None and value._k == packed.k:
        if packed.edge is None or packed.edge[0] is value:
            return value
    t = detached(value)
    t._k |= packed.k
    t._edge = (node, packed.number) if packed.number is not None else packed.edge
    return t


def _modified(node: Any, keeper: str, s: Any, storage: Storage, then: int) -> RuntimeError:
    array = s.array if s.__class__ is SavedOutput else s._array
    edge = (node, s.number) if s.__class__ is SavedOutput else s._edge
    origin = "" if edge is None else f", which is output {edge[1]} of {_forward_name(edge[0])},"
    kind = ("torch." if isinstance(array, np.ndarray) else "torch.cuda.") + type_name(array.dtype)
    return RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[{kind}Tensor {list(array.shape)}]{origin} kept for {keeper} is at version {storage.version}; expected version "
        f"{then} instead. "
        "Clone it before writing, or find the forward line with torch.autograd.set_detect_anomaly(True)."
    )


def _forward_name(node: Node) -> str:
    """The operation of a node: Sum1 for SumBackward1, Add for AddBackward0."""
    name, _, form = node.name().rpartition("Backward")
    return name + form if form != "0" else name


def trace(node: Node) -> None:
    """Remembers the forward line of a node, for anomaly mode."""
    node.__dict__["traceback"] = "".join(traceback.format_stack()[:-4])
