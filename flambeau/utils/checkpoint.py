"""Trading time for memory: activations are dropped after the forward pass and computed again in backward."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .._autograd.functions import Function, FunctionRecord
from .._autograd.modes import enable_grad
from .._core.state import GRAD, local
from .._errors.frames import warn_user
from .._library.namespaces import OpOverload, OpOverloadPacket
from .._ops.records.saved import check_versions, versions_of
from .._tensor import Tensor, detached, version_of
from ..amp.autocast_mode import autocast, get_autocast_dtype, is_autocast_cache_enabled, is_autocast_enabled
from ..autograd import backward as _backward
from ..autograd.graph import saved_tensors_hooks
from ..profiler._recorder import Watcher
from ._python_dispatch import TorchDispatchMode
from ._pytree import tree_map


class CheckpointError(RuntimeError):
    """The recomputed forward pass did not do what the first one did."""


def _random_state() -> Any:
    from ..random import get_rng_state

    return get_rng_state()


@contextlib.contextmanager
def _random_as_of(state: Any) -> Any:
    """A block that draws the numbers that followed `state`, and leaves the stream as it found it."""
    if state is None:
        yield
        return
    from ..random import get_rng_state, set_rng_state

    now = get_rng_state()
    set_rng_state(state)
    try:
        yield
    finally:
        set_rng_state(now)


class DefaultDeviceType:
    """The kind of device whose random stream is kept where no argument says it: a program says it here, or it is that of the
    accelerator, or "cpu"."""

    _default_device_type: str | None = None

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Sets it."""
        DefaultDeviceType._default_device_type = device

    @staticmethod
    def get_device_type() -> str:
        """Gives it."""
        from .. import cuda

        return DefaultDeviceType._default_device_type or ("cuda" if cuda.is_available() else "cpu")


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """The GPUs that tensors among the arguments are on, and the state of each one's random stream."""
    found = {a.get_device() for a in args if isinstance(a, Tensor) and a.is_cuda}
    if not found:
        return [], []
    from ..cuda import get_rng_state

    devices = sorted(found)
    return devices, [get_rng_state(d) for d in devices]


def set_device_states(devices: Iterable[int], states: Iterable[Tensor], *, device_type: str | None = None) -> None:
    """Puts back what `get_device_states` gave."""
    for number, state in zip(devices, states):
        from ..cuda import set_rng_state

        set_rng_state(state, number)


class _Stop(Exception):
    """All that backward needs was computed again; the rest of the forward pass is not run."""


def noop_context_fn() -> tuple[Any, Any]:
    """Contexts for the forward pass and for the recomputation that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


_early_stop: list[bool] = []


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """A block in which checkpoints made stop recomputing (or not) as soon as all that is needed is there."""
    _early_stop.append(enable)
    try:
        yield
    finally:
        _early_stop.pop()


_debug: list[bool | None] = []


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """A block that overrides the `debug` argument of checkpoints; None leaves it to them."""
    _debug.append(enabled)
    try:
        yield
    finally:
        _debug.pop()


def _autocast_now() -> list[tuple[str, Any, bool, bool]]:
    cache = is_autocast_cache_enabled()
    return [(d, get_autocast_dtype(d), is_autocast_enabled(d), cache) for d in ("cpu", "cuda")]


@contextlib.contextmanager
def _autocast_as_of(state: list[tuple[str, Any, bool, bool]]) -> Iterator[None]:
    """A block that casts as the forward pass did."""
    with contextlib.ExitStack() as stack:
        for device, dtype, enabled, cache in state:
            if enabled or is_autocast_enabled(device):
                stack.enter_context(autocast(device, dtype=dtype, enabled=enabled, cache_enabled=cache))
        yield


def _described(t: Tensor) -> dict[str, Any]:
    return {"shape": t.shape, "dtype": t.dtype, "device": t.device}


class GraphExecGroup:
    """A block in which backward passes through disjoint parts of one checkpoint share its recomputation."""

    _open: GraphExecGroup | None = None

    def __enter__(self) -> GraphExecGroup:
        if GraphExecGroup._open is not None:
            raise RuntimeError("GraphExecGroup contexts cannot be nested.")
        GraphExecGroup._open = self
        return self

    def __exit__(self, *error: Any) -> None:
        GraphExecGroup._open = None


class _Names(Watcher):
    """Writes down which operations run."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __enter__(self) -> None:
        self.names = []
        self.start()

    def __exit__(self, *error: Any) -> None:
        self.stop()

    def compute(self, op: Any, args: tuple[Any, ...], k: int) -> Any:
        self.names.append(op.name)
        return super().compute(op, args, k)


class _Recomputation:
    """One call of a function whose saved tensors are numbers; the first that is needed runs the function again."""

    def __init__(
        self, function: Any, args: Any, named: Any, preserve: bool, context: Any, early_stop: bool, check: Any
    ):
        self.function, self.args, self.named, self.context, self.early_stop = function, args, named, context, early_stop
        self.check, self.versions = check, versions_of(args)
        self.state = _random_state() if preserve else None
        self.autocast = _autocast_now()
        self.kept: list[dict[str, Any]] = []  # what the saved tensors of the forward pass were
        self.values: dict[int, Tensor] = {}  # recomputed, and not asked for yet
        self.pass_of_values: Any = None  # the backward pass (or group of them) that they were computed for
        self.complete = False  # whether the function has returned
        self.logs: tuple[_Names, _Names] | None = None  # with `debug`: what ran in the forward pass, and again

    def pack(self, t: Tensor) -> int:
        self.kept.append(_described(t))
        return len(self.kept) - 1

    def unpack(self, place: int) -> Tensor:
        group = GraphExecGroup._open
        now = group or (None if local.walk is None else local.walk.number)
        if now is None or now != self.pass_of_values or place not in self.values:
            if group is not None and now == self.pass_of_values:
                raise CheckpointError(
                    "Performing two backward calls that overlap (i.e. require the same saved activation in order to compute "
                    "gradients) is not allowed while under the same GraphExecGroup."
                )
            if now is not None and now == self.pass_of_values and local.walk.node.op.__class__ is FunctionRecord:
                raise CheckpointError(
                    "torch.utils.checkpoint: Unpack is being triggered for a tensor that was already unpacked once. Call "
                    "ctx.saved_tensors only once in backward: what is computed again is dropped when it has been given out."
                )
            values = self._recomputed()
            if now is None:  # nobody knows whether more of them will be asked for
                return values[place]
            self.values, self.pass_of_values = dict(enumerate(values)), now
        return self.values.pop(place)

    def _recomputed(self) -> list[Tensor]:
        try:
            values = self._run_again()
            if self.check is not None:
                self._compare(values)
        except CheckpointError as error:
            if self.logs is None:
                raise
            first, again = (", ".join(log.names) for log in self.logs)
            raise CheckpointError(
                "You are seeing this error because you passed `debug=True` to checkpoint (or set_checkpoint_debug_enabled): "
                f"these operations ran.\nOriginal forward: {first}\nRecomputation: {again}\n{error}"
            ) from None
        return values

    def _run_again(self) -> list[Tensor]:
        values: list[Tensor] = []
        count = len(self.kept)
        check_versions(self.args, self.versions, "checkpoint")

        def keep(t: Tensor) -> Tensor:
            if (
                len(values) >= count and not self.complete
            ):  # asked for while the function still runs: the rest is not saved yet
                return t.detach() if t._k & GRAD else t
            if len(values) < count or not self.early_stop:
                values.append(t.detach() if t._k & GRAD else t)  # an operation, which modes see
            if self.early_stop and len(values) == count:
                raise _Stop
            return values[-1]

        given = [ops_alias(a) if isinstance(a, Tensor) and a._k & GRAD else a for a in self.args]
        with (
            _random_as_of(self.state),
            _autocast_as_of(self.autocast),
            enable_grad(),
            saved_tensors_hooks(keep, lambda t: t),
            self.context,
            contextlib.nullcontext() if self.logs is None else self.logs[1],
            contextlib.suppress(_Stop),
        ):
            self.function(*given, **self.named)
        if len(values) > count:
            raise CheckpointError(
                "torch.utils.checkpoint: trying to save more tensors during recomputation than during the original forward "
                f"pass: {len(values)} instead of {count}."
            )
        if len(values) != count:
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the original forward and "
                f"recomputation.\nNumber of tensors saved during forward: {count}\nNumber of tensors saved during "
                f"recomputation: {len(values)}."
            )
        return values

    def _compare(self, values: list[Tensor]) -> None:
        lines = [
            f"tensor at position {i}:\nsaved metadata: {was}\nrecomputed metadata: {_described(t)}"
            for i, (was, t) in enumerate(zip(self.kept, values))
            if was != _described(t)
        ]
        if lines:
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than during "
                "the forward pass.\n" + "\n".join(lines)
            )


def _without_reentry(
    function: Callable[..., Any],
    args: Any,
    named: Any,
    preserve: bool,
    context_fn: Any,
    early_stop: bool,
    check: Any,
    debug: bool,
) -> Any:
    forward_context, recompute_context = context_fn()
    run = _Recomputation(function, args, named, preserve, recompute_context, early_stop, check)
    watched: Any = contextlib.nullcontext()
    if debug:
        run.logs = _Names(), _Names()
        watched = run.logs[0]
    with forward_context, watched, saved_tensors_hooks(run.pack, run.unpack):
        result = function(*args, **named)
        run.complete = True
        return result
    raise RuntimeError("checkpoint: context_fn suppressed an exception of the forward pass, so there is no result")


def ops_alias(t: Tensor) -> Tensor:
    other = detached(t)
    other._k |= t._k & GRAD
    return other


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same tensors without history, which require grad if they did."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple(ops_alias(a) if isinstance(a, Tensor) else a for a in inputs)


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warns if no input requires grad: the reentrant form then gives no gradients."""
    if not any(isinstance(a, Tensor) and a._k & GRAD for a in inputs):
        warn_user("None of the inputs have requires_grad=True. Gradients will be None")


class CheckpointFunction(Function):
    """The reentrant form: backward runs a whole backward pass of its own."""

    @staticmethod
    def forward(ctx: Any, run_function: Any, preserve_rng_state: bool, *args: Any) -> Any:
        check_backward_validity(args)
        ctx.function = run_function
        ctx.state = _random_state() if preserve_rng_state else None
        ctx.autocast = _autocast_now()
        ctx.inputs = [None if isinstance(a, Tensor) else a for a in args]
        ctx.places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.save_for_backward(*[args[i] for i in ctx.places])
        return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        if local.walk.wanted is not None:
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
                "parameter to .backward(). Use checkpoint(use_reentrant=False) instead"
            )
        inputs = list(ctx.inputs)
        for place, t in zip(ctx.places, ctx.saved_tensors):
            inputs[place] = ops_alias(t)
        with _random_as_of(ctx.state), _autocast_as_of(ctx.autocast), enable_grad():
            out = ctx.function(*inputs)
        outs = out if isinstance(out, tuple) else (out,)
        pairs = [(o, g) for o, g in zip(outs, gradients) if isinstance(o, Tensor) and o._k & GRAD]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        _backward([o for o, _ in pairs], [g for _, g in pairs])
        return (None, None, *[a.grad if isinstance(a, Tensor) else None for a in inputs])


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Runs a function without keeping what backward needs; it is computed again then, with the same random numbers.

    >>> import flambeau as torch
    >>> from flambeau.utils.checkpoint import checkpoint
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> checkpoint(lambda t: (t * t).exp(), x, use_reentrant=False).sum().backward()
    >>> x.grad
    tensor([  5.4366, 218.3926])
    """
    preserve_rng_state = kwargs.pop("preserve_rng_state", True)  # the other arguments by name are the function's
    if use_reentrant is None:
        warn_user(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. use_reentrant=False is "
            "recommended, but if you need to preserve the current default behavior, you can pass use_reentrant=True."
        )
        use_reentrant = True
    if use_reentrant:
        if context_fn is not noop_context_fn or debug is not False:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        return CheckpointFunction.apply(function, preserve_rng_state, *args)
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ['default', 'none'] but got {determinism_check}")
    stop = _early_stop[-1] if _early_stop else early_stop
    check = None if determinism_check == "none" else True
    told = _debug[-1] if _debug else None
    return _without_reentry(
        function, args, kwargs, preserve_rng_state, context_fn, stop, check, debug if told is None else told
    )


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Checkpoints a sequence of functions in `segments` pieces; the last piece keeps its activations."""
    if use_reentrant is None:
        warn_user(
            "torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be passed explicitly."
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    steps: list[Any] = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = len(steps) // segments

    def run(part: Iterable[Any]) -> Callable[[Any], Any]:
        def forward(x: Any) -> Any:
            for step in part:
                x = step(x)
            return x

        return forward

    for i in range(segments - 1):
        input = checkpoint(
            run(steps[i * size : (i + 1) * size]), input, use_reentrant=use_reentrant, preserve_rng_state=preserve
        )
    return run(steps[(segments - 1) * size :])(input)


class CheckpointPolicy(enum.Enum):
    """What selective checkpointing does with the result of an operation: keep it, or compute it again."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3


class SelectiveCheckpointContext:
    """What a policy is told: whether the operation runs in the forward pass or is computed again."""

    def __init__(self, *, is_recompute: bool, op_output: Any = None):
        self.is_recompute, self.op_output = is_recompute, op_output


_UNASKED = frozenset(
    ("aten::detach", "aten::sym_size", "aten::sym_stride", "aten::sym_numel", "aten::_local_scalar_dense")
)


class _CachingTorchDispatchMode(TorchDispatchMode):
    """Runs the operations of the forward pass and stores the results that the policy keeps."""

    def __init__(self, policy_fn: Any, storage: dict[Any, list[Any]]):
        super().__init__()
        self.policy_fn, self.storage = policy_fn, storage

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if func.name() in _UNASKED:
            return out
        answer = self.policy_fn(SelectiveCheckpointContext(is_recompute=False, op_output=out), func, *args, **kwargs)
        keeps = answer in (True, CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)
        self.storage.setdefault(func, []).append(tree_map(_kept, out) if keeps else _COMPUTED_AGAIN)
        return out


class _CachedTorchDispatchMode(TorchDispatchMode):
    """Runs them again, but for those whose results are stored; the policy is not asked a second time."""

    def __init__(self, storage: dict[Any, list[Any]], allow_cache_entry_mutation: bool):
        super().__init__()
        self.storage, self.may_change = storage, allow_cache_entry_mutation
        self.taken: dict[Any, int] = {}

    def __enter__(self) -> Any:
        self.taken = {}
        return super().__enter__()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.name() in _UNASKED:
            return func(*args, **kwargs)
        entries, place = self.storage.get(func, []), self.taken.get(func, 0)
        self.taken[func] = place + 1
        if place >= len(entries):
            raise RuntimeError(
                f"{func}: invocation index {place} not found in storage: the forward pass did not run it so often"
            )
        found = entries[place]
        if found is _COMPUTED_AGAIN:
            return func(*args, **kwargs)
        if found is None:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any region computed under "
                "selective activation checkpoint."
            )
        entries[place] = None
        return tree_map(lambda kept: kept.checked(self.may_change) if isinstance(kept, _Kept) else kept, found)


class _Kept:
    """A result that is not computed again, and how often its memory had been written to."""

    def __init__(self, t: Tensor):
        self.val, self.version = detached(t), version_of(t)

    def checked(self, may_change: bool) -> Tensor:
        if not may_change and version_of(self.val) != self.version:
            raise RuntimeError(
                "Tensor cached during selective activation checkpoint has been mutated. Pass allow_cache_entry_mutation="
                "True to create_selective_checkpoint_contexts if that is meant."
            )
        return self.val


def _kept(result: Any) -> Any:
    return _Kept(result) if isinstance(result, Tensor) else result


_COMPUTED_AGAIN = object()  # in place of the kept results of an operation that the policy does not keep


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False
) -> tuple[Any, Any]:
    """Contexts for `checkpoint(context_fn=…)` that keep the results of some operations instead of computing them again.

    `policy_fn_or_list` is a list of operators to keep, or policy(ctx, op, *args) that gives a `CheckpointPolicy` (or
    whether to keep). Operations are asked about by the names of PyTorch's, custom operators as a whole.

    >>> import flambeau as torch, functools
    >>> from flambeau.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
    >>> x = torch.ones(2, 2, requires_grad=True)
    >>> keep = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])
    >>> checkpoint(lambda t: torch.mm(t, t).sin(), x, use_reentrant=False, context_fn=keep).sum().backward()
    >>> x.grad
    tensor([[-1.6646, -1.6646],
            [-1.6646, -1.6646]])
    """
    if isinstance(policy_fn_or_list, list):
        for op in policy_fn_or_list:
            if not isinstance(op, OpOverload):
                advice = (
                    "Please update the OpOverloadPacket to a specific OpOverload, for example torch.ops.aten.mm.default"
                    if isinstance(op, OpOverloadPacket)
                    else "Name an overload, for example torch.ops.aten.mm.default"
                )
                raise ValueError(
                    f"Expected op in `op_list` to be an OpOverload but got: {op} of type {type(op)}. {advice}"
                )
        policy: Any = lambda ctx, op, *args, **named: op in policy_fn_or_list
    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    stored: dict[Any, list[Any]] = {}
    return (_CachingTorchDispatchMode(policy, stored), _CachedTorchDispatchMode(stored, allow_cache_entry_mutation))


__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "DefaultDeviceType",
    "GraphExecGroup",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]  # fmt: skip
