"""What is remembered of an operation: which op, whence its inputs came, and the values its derivative needs."""

from __future__ import annotations

import functools
import itertools
from typing import Any, NamedTuple

from .._core.state import DISPATCH, GRAD, local
from .._tensor import Storage, Tensor, meta_of, wrap, wrapper_copy

# Later nodes have smaller numbers: the engine takes the smallest first, so every node comes after its consumers.
sequence = itertools.count(0, -1).__next__


class Node:
    """One recorded operation. `edges` lead to what made its inputs: (node, number), (leaf, 0) or None."""

    __slots__ = (
        "__dict__", "__weakref__", "edges", "hooks", "info", "label", "op", "outputs", "pre_hooks", "saved", "seq",
        "versions",
    )  # fmt: skip
    # op        knows the derivative: op.backward(node, gradients, create_graph) -> one gradient for each edge
    # saved     values the derivative needs, or None once released
    # versions  of the saved tensors' storages, where they have one
    # info      shapes and dtypes of inputs where they differ from the output's
    # outputs   None for one output, otherwise the (shape, dtype) of each
    # label     set only where the node goes by another name than its op's: the last of several that PyTorch has as one

    op: Any
    edges: Any
    saved: Any
    outputs: Any
    versions: Any
    info: Any
    hooks: Any
    pre_hooks: Any
    seq: int
    label: str

    def __init__(self, op: Any, edges: Any, saved: Any = (), outputs: Any = None):
        self.op, self.edges, self.saved, self.outputs = op, edges, saved, outputs
        self.seq = sequence()
        self.versions = self.info = self.hooks = self.pre_hooks = None

    def name(self) -> str:
        try:
            return self.label
        except AttributeError:
            pass
        named = self.op.backward_name  # where PyTorch numbers the forms of an operation, a function of the node
        return named if named.__class__ is str else named(self)

    def __repr__(self) -> str:
        home = getattr(self.op, "home", "")
        return f"<{home}{self.name().rpartition(':')[2]} object at {id(self):#x}>"

    @property
    def next_functions(self) -> tuple[Any, ...]:
        return tuple((None, 0) if e is None or e is NOWHERE else (gradient_function(*e), e[1]) for e in self.edges)

    @property
    def metadata(self) -> dict[Any, Any]:
        return self.__dict__.setdefault("_metadata", {})

    @property
    def _input_metadata(self) -> list[Any]:
        """Shape and dtype of each result of the operation, whose gradients the node receives."""
        if self.outputs is not None:
            return [None if about is None else InputMetadata(*about[:2]) for about in self.outputs]
        known = self.__dict__.get("shapes", {}).get(0)
        return [] if known is None else [InputMetadata(*known)]

    def _sequence_nr(self) -> int:
        return self.__dict__.get("sequence_nr", -self.seq)

    def _set_sequence_nr(self, number: int) -> None:
        """Among the nodes that may run at a time the one with the highest number runs first."""
        from . import engine  # which needs this module first

        engine.sequences_are_set = True
        self.seq = -number
        self.__dict__["sequence_nr"] = number

    def register_hook(self, hook: Any) -> Any:
        """Calls hook(grad_inputs, grad_outputs) after the node's derivative was computed."""
        if self.hooks is None:
            self.hooks = {}
        walk = local.walk
        if walk is not None and walk.node is self:  # it runs now, and may have released what it got
            late = hook
            hook = lambda made, got: late(made, (None,) * len(got) if local.walk is walk else got)
        return RemovableHandle(self.hooks, hook)

    def register_prehook(self, hook: Any) -> Any:
        """Calls hook(grad_outputs) before the node's derivative is computed, after the hooks of its results."""
        if self.pre_hooks is None:
            self.pre_hooks = {}
        return _last(self.pre_hooks, hook)

    def _register_hook_dict(self, t: Tensor) -> None:
        """Lets the hooks of a tensor see (and replace) the gradient that the node gets for it, also those added later."""
        hooks, number = t._backward_hooks, t.output_nr

        def call(gradients: tuple[Any, ...]) -> Any:
            made = list(gradients)
            for hook in list(hooks.values()):
                found = hook(made[number])
                made[number] = made[number] if found is None else found
            return tuple(made)

        self.register_prehook(call)

    def __call__(self, *gradients: Any) -> Any:
        expected = 1 if self.outputs is None else len(self.outputs)
        if len(gradients) != expected:
            raise TypeError(f"expected {expected} arguments, got {len(gradients)} instead")
        result = self.op.backward(self, gradients[0] if self.outputs is None else list(gradients), False)
        return result[0] if len(result) == 1 else result


class SeenNode(Node):
    """A node that somebody looks at. Only these have attributes that are looked for: it slows down all the others."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        """What was kept for the derivative: `_saved_self`, `_saved_dim`, and `_raw_saved_self` to put hooks on it."""
        if name.startswith(("_saved_", "_raw_saved_")):
            return saved_value(self, name)
        ctx = self.__dict__.get("ctx")  # a user's Function: its ctx and its node are one to those who look
        if ctx is not None:
            if name == "apply":
                return lambda *gradients: self.op.call(self, list(gradients))
            return getattr(ctx, name)
        raise AttributeError(f"{self.name()!r} object has no attribute {name!r}" if name != "label" else name)


saved_value: Any = None  # set by the ops layer: what a node kept, by PyTorch's name of it


class InputMetadata(NamedTuple):
    """What is known of a result of a node."""

    shape: Any
    dtype: Any
    is_nested_tensor: bool = False
    is_cpp_nested_tensor: bool = False


class _Accumulation:
    """The operation of the nodes that stand for leaves."""

    name, backward_name = "accumulate_grad", "torch::autograd::AccumulateGrad"

    @staticmethod
    def backward(node: Any, gradient: Any, create_graph: bool) -> tuple[Any, ...]:
        from .engine import accumulate  # the engine needs this module first

        accumulate(node.variable, gradient, create_graph)
        return ()


class AccumulateGrad(Node):
    """Stands for a leaf in `next_functions`; calling it adds to the leaf's gradient."""

    __slots__ = ("variable",)

    def __init__(self, variable: Tensor):
        super().__init__(_Accumulation, ())
        self.variable = variable

    def __repr__(self) -> str:
        return f"<AccumulateGrad object at {id(self):#x}>"

    def register_hook(self, hook: Any) -> Any:
        meta = meta_of(self.variable)
        if meta.post_hooks is None:
            meta.post_hooks = {}
        _watch_leaves()
        return _last(meta.post_hooks, hook)

    def register_prehook(self, hook: Any) -> Any:
        meta = meta_of(self.variable)
        if meta.hooks is None:
            meta.hooks = {}

        def as_tensor_hook(g: Any) -> Any:
            replaced = hook((g,))
            return replaced[0] if isinstance(replaced, tuple) else replaced

        _watch_leaves()
        return _last(meta.hooks, as_tensor_hook)


class _Nothing:
    name = backward_name = "nothing"


# The edge of views that were made, without recording, of tensors that require grad: so do they, and are leaves, but nothing gets their gradients.
NOWHERE = (Node(_Nothing, (), outputs=()), 0)


def is_leaf(t: Tensor) -> bool:
    """Whether no operation that was recorded made a tensor."""
    return t._edge is None or t._edge is NOWHERE


class RemovableHandle:
    """Takes a hook away again: by `remove()` or at the end of a `with` block.

    Without `_hook` it only stands for a number, under which the caller enters the hook. `extra_dict` names further
    dictionaries (one, or a list) that may hold something under the same number.
    """

    _ids = itertools.count()

    id: Any

    def __init__(self, hooks_dict: dict[Any, Any], _hook: Any = None, *, extra_dict: Any = None):
        self.hooks, self.id = hooks_dict, next(self._ids)
        while self.id in hooks_dict:  # hooks that came out of a file have numbers of another process
            self.id = next(self._ids)
        self.extra = extra_dict if isinstance(extra_dict, (list, tuple)) else [] if extra_dict is None else [extra_dict]
        if _hook is not None:
            hooks_dict[self.id] = _hook

    def remove(self) -> None:
        self.hooks.pop(self.id, None)
        for extra in self.extra:
            extra.pop(self.id, None)

    @property
    def hooks_dict_ref(self) -> Any:
        """A function without arguments that gives the dictionary, as PyTorch's weak reference does."""
        return lambda: self.hooks

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: Any) -> None:
        self.remove()


def _last(hooks: dict[Any, Any], hook: Any) -> RemovableHandle:
    """Enters a hook of a node, which comes after those of tensors (see `keep_last`)."""
    handle = RemovableHandle(hooks)
    handle.id = ("node", handle.id)
    hooks[handle.id] = hook
    return handle


def keep_last(hooks: dict[Any, Any]) -> None:
    """Retained gradients are those after all hooks of the tensor; the hooks of its node come last."""
    for kind in ("retain", "node"):
        for key in [key for key in hooks if key.__class__ is tuple and key[0] == kind]:
            hooks[key] = hooks.pop(key)


def _watch_leaves() -> None:
    from . import engine  # which needs this module first

    engine.leaves_are_watched = True


def edge_of(t: Tensor) -> Any:
    """Where the gradient of a tensor goes; None if it needs none, or nobody gets it."""
    if not t._k & GRAD or t._edge is NOWHERE:
        return None
    return t._edge or (t, 0)


@functools.cache
def class_named(name: str) -> Any:
    return type(name.rpartition(":")[2], (SeenNode,), {"__slots__": ()})


def gradient_function(target: Any, number: int = 0) -> Any:
    """The node behind an edge; for a leaf the one AccumulateGrad that stands for it."""
    if not isinstance(target, Tensor):
        if target.__class__ is Node:  # who looks at the graph sees a class named after the operation
            target.__class__ = class_named(target.name())
        return target
    meta = meta_of(target)
    found = meta.accumulator() if meta.accumulator is not None else None
    if found is None:
        import weakref  # only for those who look at the graph

        found = AccumulateGrad(target)
        meta.accumulator = weakref.ref(found)
    return found


class SavedOutput(Storage):
    """A node's own result among its saved values: kept without its history, which would be a circle.

    It is also the storage of that result, unless the result already had one (`shared`).
    """

    __slots__ = ("dtype", "k", "number", "shared", "wrapper")

    def __init__(self, t: Tensor, number: int):
        self.array, self.dtype, self.k, self.number = t._array, t.dtype, t._k, number
        self.version, self.views = 0, None
        self.shared = t._storage
        if self.shared is None:
            t._storage = self
        if t._k & DISPATCH:  # what it wraps is its value
            self.wrapper = wrapper_copy(t)

    @property
    def storage(self) -> Storage:
        return self if self.shared is None else self.shared

    def tensor(self, node: Node) -> Tensor:
        if self.k & DISPATCH:
            t = wrapper_copy(self.wrapper)
            t._k, t._edge = self.k, (node, self.number)
            return t
        t = wrap(self.array, self.dtype, self.k)
        t._storage = self.storage
        t._edge = (node, self.number)
        return t
