"""The bare tensor: an array, its dtype, and slots for history. Everything users call is attached in `_methods`."""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, Any
from weakref import ref

from .._core.state import BATCHED, CONJ, DISPATCH, DUAL, GRAD, META, NEG, OVERRIDE, POSTPONED, local, modes

if TYPE_CHECKING:
    from .._tensor_methods import TensorMethods  # a stub: what is attached later
else:
    TensorMethods = object


class Storage:
    """The memory that a tensor and all its views share, with the count of writes into it."""

    __slots__ = ("__weakref__", "array", "most", "version", "views")

    def __init__(self, array: Any):
        self.array = array  # of the tensor that the views were taken from; its memory is the storage
        self.version = 0
        self.views: list[Any] | None = None  # weak references to the differentiable views, oldest first

    def twin(self, version: int = 0) -> Storage:
        """The same memory with another count of writes."""
        made = Borrowed(self.array) if isinstance(self, Borrowed) else Storage(self.array)
        made.version = version
        return made

    def has_memory_of(self, other: Storage | None) -> bool:
        """Whether another storage is this one or its twin."""
        return other is self or (other is not None and other.array is self.array and not isinstance(self, Borrowed))

    def add_view(self, view: Tensor) -> None:
        """Who adds a view in another way calls this one at least for every 64th."""
        views = self.views
        if views is None:
            self.views, self.most = [ref(view)], 63  # views after which the dead ones are forgotten
            return
        if len(views) >= self.most:  # as many as are looked at have come since the last time
            views[:] = [v for v in views if v() is not None]
            self.most = 2 * len(views) + 63
        views.append(ref(view))


class Borrowed(Storage):
    """Memory that a NumPy array in a user's hands shares: it cannot grow."""

    __slots__ = ()


class Meta:
    """What few tensors have: a gradient, hooks, a name."""

    __slots__ = ("__dict__", "accumulator", "grad", "hooks", "post_hooks", "retains", "tangent")

    def __init__(self) -> None:
        self.grad: Tensor | None = None
        self.hooks: dict[Any, Any] | None = None
        self.post_hooks: dict[Any, Any] | None = None
        self.accumulator: Any = None  # a weak reference to the node that stands for a leaf
        self.retains = False
        self.tangent: Tensor | None = None  # in forward mode, of a tensor with the bit DUAL

    inference = False
    inherited: Meta | None = None  # what other tensors over the same memory begin with


class InferenceMeta(Meta):
    """That of a tensor made in inference mode."""

    __slots__ = ()
    inference = True


INFERENCE = InferenceMeta.inherited = InferenceMeta()  # shared by all that have nothing to add to it


class BirthMeta(Meta):
    """That of the tensors made while a function is differentiated by a transform, shared in the same way.

    The function may write to these; what it captured is refused.
    """

    __slots__ = ("transforms",)

    def __init__(self, transforms: tuple[Any, ...]):
        super().__init__()
        self.transforms = transforms  # those that were open
        self.inherited = self


# Views whose history an in-place operation cannot rewrite.
MADE_WITHOUT_GRAD, MADE_IN_INFERENCE, MADE_WITH_OTHERS, MADE_IN_FUNCTION = 1, 2, 3, 4


class Tensor(TensorMethods):
    """An n-dimensional array that remembers how it was computed."""

    __slots__ = (
        "__dict__", "__weakref__", "_array", "_autograd_meta", "_edge", "_k", "_storage", "_view", "dtype",
    )  # fmt: skip
    # _array    numpy or cupy array: shape, strides and memory
    # dtype     our dtype object
    # _k        properties as bits (see _core.state); 0 for a plain CPU tensor without history
    # _edge     (node, output number) that made this tensor, or None for a leaf
    # _autograd_meta  Meta, made at the first need
    # _storage  Storage shared with views, made at the first need
    # _view     of a view: (parent, op, arguments, which of several results, length of the chain, why its history
    #           cannot be rewritten (see `MADE_…`) or 0, and the version of the memory then); otherwise None

    _array: Any
    dtype: Any
    _k: int
    _edge: Any
    _autograd_meta: Meta | None
    _storage: Storage | None
    _view: Any
    _class_k = 0  # bits that tensors of this class have: OVERRIDE where it takes over operations


_new = object.__new__
_PLAIN = ~(GRAD | OVERRIDE | DUAL)


def wrap(array: Any, dtype: Any, k: int = 0) -> Tensor:
    """A tensor around an array, without history."""
    t = _new(Tensor)
    t._array, t.dtype, t._k = array, dtype, k
    t._edge = t._storage = t._view = None
    marks = modes.inferring
    t._autograd_meta = None if marks is None else marks.get(get_ident())
    return t


def inherited(t: Tensor) -> Meta | None:
    """What a tensor over the memory of `t` begins with: it is an inference tensor if `t` is one, and as old."""
    meta = t._autograd_meta
    return None if meta is None else meta.inherited


def is_inference(t: Tensor) -> bool:
    return t._autograd_meta is not None and t._autograd_meta.inference


def refuse_inference(saved: Any) -> None:
    """Raises if a node would keep a tensor that was made in inference mode: nobody counts the writes to it."""
    for s in saved:
        if isinstance(s, Tensor) and is_inference(s):
            raise RuntimeError(
                "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
                "computation that autograd records: clone() them first, or use torch.no_grad() instead of inference_mode()"
            )
        if s.__class__ is list:
            refuse_inference(s)


def read_as(array: Any, k: int) -> Any:
    """What an array in the memory of a tensor with properties `k` reads as; also what must lie there to read so."""
    if k & META or not k & POSTPONED:
        return array
    whole = array[None]  # NumPy makes numbers of results without dimensions
    if k & CONJ:
        whole = whole.conj()
    return (-whole if k & NEG else whole)[0, ...]


def computed(t: Tensor) -> Tensor:
    """The tensor, without history, in memory of its own if it is a view that conjugates or negates."""
    return wrap(read_as(t._array, t._k), t.dtype, t._k & ~(POSTPONED | GRAD)) if t._k & POSTPONED else t


def storage_of(t: Tensor) -> Storage:
    storage = t._storage
    if storage is None:
        storage = t._storage = Storage(t._array)
    return storage


def meta_of(t: Tensor) -> Meta:
    meta = t._autograd_meta
    if meta is None:
        meta = t._autograd_meta = Meta()
    elif meta.inherited is meta:  # a shared one
        shared = meta
        meta = t._autograd_meta = InferenceMeta() if shared.inference else Meta()
        meta.inherited = shared
    return meta


def version_of(t: Tensor) -> int:
    storage = t._storage
    return 0 if storage is None else storage.version


def bump(t: Tensor) -> None:
    """Counts a write into the tensor's memory."""
    storage = t._storage
    if storage is None:
        storage = t._storage = Storage(t._array)
    storage.version += 1


def wrapper_copy(t: Tensor) -> Tensor:
    """Another tensor like one whose class has `__torch_dispatch__`, without history: what it wraps is the same."""
    other = _new(type(t))
    other._array, other.dtype, other._k = t._array, t.dtype, t._k & ~GRAD
    other._edge = other._autograd_meta = other._view = None
    other._storage = storage_of(t)
    other.__dict__.update(t.__dict__)
    for kind in type(t).__mro__:
        if kind is Tensor:
            break
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if slots.__class__ is str else slots:
            if hasattr(t, name):
                setattr(other, name, getattr(t, name))
    return other


def alias(t: Tensor) -> Tensor:
    """Another tensor over the same memory and history: what a node keeps of a tensor that is about to change."""
    if t._k & BATCHED:
        return t.around(alias(t.value))  # type: ignore[attr-defined]
    if t._k & DISPATCH:
        other = wrapper_copy(t)
        other._edge, other._view, other._k = t._edge, t._view, t._k
        return other
    other = wrap(t._array, t.dtype, t._k & ~OVERRIDE)
    other._edge, other._storage, other._view = t._edge, storage_of(t), t._view
    other._autograd_meta = inherited(t)
    if t._k & DUAL:
        meta_of(other).tangent = t._autograd_meta.tangent  # type: ignore[union-attr]
        local.duals.append(ref(other))
    return other


def detached(t: Tensor) -> Tensor:
    """The same memory without history."""
    if t._k & BATCHED:
        return t.around(detached(t.value))  # type: ignore[attr-defined]
    if t._k & DISPATCH:
        return wrapper_copy(t)
    other = wrap(t._array, t.dtype, t._k & _PLAIN)
    other._storage, other._autograd_meta = storage_of(t), inherited(t)
    return other
