"""Trading time for memory: activations are dropped after the forward pass and computed again in backward."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

from .._autograd.functions import Function
from .._autograd.modes import enable_grad
from .._core.state import GRAD
from .._tensor import Tensor, detached
from ..autograd import backward as _backward
from ..autograd.graph import saved_tensors_hooks


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


def _no_context() -> tuple[Any, Any]:
    return contextlib.nullcontext(), contextlib.nullcontext()


def _without_reentry(
    function: Callable[..., Any], args: Any, named: Any, preserve: bool, context_fn: Any, early_stop: bool
) -> Any:
    """Saved tensors become places in a list; the first one that is needed runs the function again to fill it."""
    state = _random_state() if preserve else None
    forward_context, recompute_context = context_fn()
    count = 0
    runs: dict[str, Any] = {"values": None}

    def pack(t: Tensor) -> int:
        nonlocal count
        count += 1
        return count - 1

    def recompute() -> list[Tensor]:
        values: list[Tensor] = []

        def keep(t: Tensor) -> None:
            values.append(detached(t))
            if early_stop and len(values) == count:
                raise _Stop

        given = [ops_alias(a) if isinstance(a, Tensor) else a for a in args]
        with (
            _random_as_of(state),
            enable_grad(),
            recompute_context,
            saved_tensors_hooks(keep, _unused),
            contextlib.suppress(_Stop),
        ):
            function(*given, **named)
        if len(values) != count:
            raise CheckpointError(
                "checkpoint: A different number of tensors was saved during the original forward and recomputation, "
                f"{count} and {len(values)}"
            )
        return values

    def unpack(place: int) -> Tensor:
        if runs["values"] is None:
            runs["values"] = recompute()
            runs["left"] = count
        value = runs["values"][place]
        runs["left"] -= 1
        if not runs["left"]:
            runs["values"] = None
        return value

    with forward_context, saved_tensors_hooks(pack, unpack):
        return function(*args, **named)


def ops_alias(t: Tensor) -> Tensor:
    other = detached(t)
    other._k |= t._k & GRAD
    return other


def _unused(packed: Any) -> Tensor:
    raise CheckpointError("a recomputed forward pass was differentiated")


class CheckpointFunction(Function):
    """The reentrant form: backward runs a whole backward pass of its own."""

    @staticmethod
    def forward(ctx: Any, function: Any, preserve: bool, *args: Any) -> Any:
        ctx.function = function
        ctx.state = _random_state() if preserve else None
        ctx.inputs = [None if isinstance(a, Tensor) else a for a in args]
        ctx.save_for_backward(*[a for a in args if isinstance(a, Tensor)])
        return function(*args)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        saved = iter(ctx.saved_tensors)
        inputs = [next(saved) if a is None else a for a in ctx.inputs]
        inputs = [ops_alias(a) if isinstance(a, Tensor) else a for a in inputs]
        with _random_as_of(ctx.state), enable_grad():
            out = ctx.function(*inputs)
        outs = out if isinstance(out, tuple) else (out,)
        pairs = [(o, g) for o, g in zip(outs, gradients) if isinstance(o, Tensor) and o._k & GRAD]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, so checkpoint() has nothing to do")
        _backward([o for o, _ in pairs], [g for _, g in pairs])
        return (None, None, *[a.grad if isinstance(a, Tensor) else None for a in inputs])  # type: ignore[attr-defined]


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = _no_context,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
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
    if use_reentrant:
        if kwargs or context_fn is not _no_context:
            raise ValueError("keyword arguments and context_fn need use_reentrant=False")
        return CheckpointFunction.apply(function, preserve_rng_state, *args)
    return _without_reentry(function, args, kwargs, preserve_rng_state, context_fn, early_stop)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Checkpoints a sequence of functions in `segments` pieces; the last piece keeps its activations."""
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


__all__ = ["CheckpointError", "CheckpointFunction", "checkpoint", "checkpoint_sequential"]
