"""`compile` and the switches around it.

A compiled function is recorded when it is called in a state of the world that is new to it, and from then on its program runs
in its place (`_region.py`). What cannot be recorded runs eagerly, with the same results.
"""

from __future__ import annotations

import functools
import inspect
import sys
import weakref
from collections.abc import Callable
from typing import Any

from .._compile.breaks import Break
from .._compile.holders import plain
from .._core.state import CAPTURE, local, modes
from .._tensor import Tensor
from ..nn.modules.module import Module
from ..nn.parameter import Parameter
from . import config
from ._forms import leaves_in
from ._region import Region

__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "config", "cudagraph_mark_step_begin", "disable",
    "get_default_backend", "is_compiling", "is_dynamo_compiling", "is_exporting", "keep_portable_guards_unsafe",
    "keep_tensor_guards_unsafe", "list_backends", "load_cache_artifacts",
    "load_compiled_function", "nested_compile_region", "reset", "save_cache_artifacts", "set_default_backend",
    "set_enable_guard_collectives", "set_stance", "skip_all_guards_unsafe", "skip_guard_on_all_nn_modules_unsafe",
    "skip_guard_on_globals_unsafe", "skip_guard_on_inbuilt_nn_modules_unsafe", "substitute_in_graph", "wrap_numpy",
]  # fmt: skip

_MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
_BACKENDS = ("cudagraphs", "inductor", "openxla", "tvm")
_DEBUG_BACKENDS = ("aot_eager", "aot_eager_decomp_partition", "eager", "eager_noexcept")
_STANCES = (
    "default",
    "force_eager",
    "eager_on_recompile",
    "fail_on_recompile",
    "eager_then_compile",
    "aot_eager_then_compile",
)
_state: dict[str, Any] = {"stance": "default", "backend": "inductor", "registered": {}}


class InvalidBackend(RuntimeError):
    """A backend of that name does not exist."""


class OptimizedModule(Module):
    """A compiled module around the original, `_orig_mod`; parameters have that prefix in its `state_dict`.

    >>> import flambeau as torch
    >>> compiled = torch.compiler.compile(torch.nn.Linear(2, 3))
    >>> list(compiled.state_dict()), compiled(torch.ones(1, 2)).shape
    (['_orig_mod.weight', '_orig_mod.bias'], torch.Size([1, 3]))
    """

    def __init__(self, mod: Module, dynamo_ctx: Any = None) -> None:
        super().__init__()
        self._orig_mod = mod
        self.dynamo_ctx = dynamo_ctx
        self.__dict__["_region"] = (dynamo_ctx or _Options()).region(mod)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__["_region"](*args, **kwargs)

    def train(self, mode: bool = True) -> OptimizedModule:
        """Training or evaluation of the original."""
        self._orig_mod.train(mode)
        return self

    @property
    def training(self) -> bool:  # type: ignore[override]
        return self._orig_mod.training

    @training.setter
    def training(self, value: bool) -> None:
        if "_modules" in self.__dict__ and "_orig_mod" in self.__dict__["_modules"]:
            self._orig_mod.training = value

    def __delattr__(self, name: str) -> None:
        if name in self.__dict__:
            super().__delattr__(name)
        else:
            delattr(self._orig_mod, name)

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self.__dict__["_modules"]["_orig_mod"]
        return getattr(self.__dict__["_modules"]["_orig_mod"], name)

    def __setattr__(self, name: str, val: Any) -> None:
        own = ("_orig_mod", "dynamo_ctx", "training", "forward", "__class__")
        if name in own or "_modules" not in self.__dict__:
            super().__setattr__(name, val)
        elif name in self.__dict__:
            self.__dict__[name] = val
        else:
            setattr(self.__dict__["_modules"]["_orig_mod"], name, val)

    def __len__(self) -> int:
        return len(self._orig_mod)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})

    def __reduce__(self) -> Any:
        return OptimizedModule, (self._orig_mod, self.dynamo_ctx)


class _Options:
    """How a function is to be compiled."""

    def __init__(
        self, fullgraph: bool = False, backend: Any = "inductor", options: dict[str, Any] | None = None, dynamic: bool | None = None,
        tune: bool = False, limit: int | None = None, graphs: bool = False, choice: Any = None,
    ):  # fmt: skip
        self.fullgraph, self.backend, self.options, self.dynamic = fullgraph, backend, options, dynamic
        self.tune, self.limit, self.graphs, self.choice = tune, limit, graphs, choice

    def region(self, function: Callable[..., Any]) -> Region:
        """A function, compiled."""
        backend = self.backend
        if isinstance(backend, str):
            backend = _state["registered"].get(backend)
        if backend is not None and self.options:
            backend = functools.partial(backend, **self.options)
        error = _unsupported if self.fullgraph else None
        own = self.limit
        limit = _limit if own is None else lambda: own
        made = Region(function, limit, backend, error, lambda: _state["stance"], self.dynamic)
        made.tune, made.graphs, made.choice = self.tune, self.graphs, self.choice
        _regions.add(made)
        return made

    def __call__(self, model: Any) -> Any:
        """Another function, compiled in the same way."""
        if isinstance(model, Module):
            return OptimizedModule(model, self)
        region = self.region(original(model))
        call = region.__call__

        @functools.wraps(model)
        def compiled(*args: Any, **kwargs: Any) -> Any:
            return call(*args, **kwargs)

        _note_original(compiled, model)
        compiled._region = region  # type: ignore[attr-defined]
        return compiled

    def __reduce__(self) -> Any:
        own = self.fullgraph, self.backend, self.options, self.dynamic, self.tune, self.limit, self.graphs, self.choice
        return _Options, own


_regions: weakref.WeakSet[Region] = weakref.WeakSet()


def _limit() -> int:
    from .._dynamo import config  # which needs this module first

    older = config.cache_size_limit
    return config.recompile_limit if older == 8 else older


def _unsupported(problem: Break) -> Exception:
    from .._dynamo.exc import Unsupported  # which needs this module first

    return Unsupported(
        f"{problem}. With fullgraph=True all of a function must be recorded: move this out of it, or compile without fullgraph."
    )


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
) -> Any:
    """A module or function with the same results whose calls run as programs. Also a decorator, with or without arguments.

    A call is recorded with all that it depended on, and recorded again when that changes (up to `recompile_limit` times, or
    `_dynamo.config.recompile_limit`, then it runs eagerly; each compiled function counts for itself). A program is made for given sizes: with `dynamic=False` other sizes
    are a change like any other; otherwise a size that has changed once, was marked (`torch._dynamo.mark_dynamic`) or, with `dynamic=True`, any
    size may change: then calls run eagerly until those with one set of sizes have taken as long as making a program takes. What cannot be recorded
    (sizes or branches that depend on elements, the clock, files, …) makes a function run eagerly; with `fullgraph` it raises
    `_dynamo.exc.Unsupported` if PyTorch could not record it either (branches, the clock, files, …). A function given as `backend` is called with an `fx.GraphModule` and example inputs, and what it
    returns runs in the place of the graph; of a function that cannot be recorded whole it gets the pieces between breaks. Named backends are all the same here. With the modes
    "reduce-overhead" and "max-autotune" (the option `triton.cudagraphs`, the backend "cudagraphs") programs on a GPU run as CUDA graphs; a
    program on a CPU is one native call anyway. With "max-autotune" (or the option `max_autotune`) programs are tried in several forms, and
    which one is the fastest is kept on disk. `name` is what messages call the function. The option `guard_filter_fn` chooses guards of values that
    never change (see `skip_all_guards_unsafe` and its kind): those that it drops are not asked in later calls.

    >>> import flambeau as torch
    >>> @torch.compile
    ... def twice(x):
    ...     return x * 2
    >>> twice(torch.ones(2))
    tensor([2., 2.])
    """
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    if shapes_spec is not None:
        raise NotImplementedError(
            "torch.compile: shapes_spec is not available; programs are made for the sizes that come"
        )
    backend = _state["backend"] if backend is None else backend
    if isinstance(backend, str) and backend not in (*_BACKENDS, *_DEBUG_BACKENDS, *_state["registered"]):
        raise InvalidBackend(
            f"Invalid backend: {backend!r}, see `torch.compiler.list_backends()` for available backends."
        )
    if model is None:
        return lambda given: compile(
            given, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, name=name, disable=disable,
            recompile_limit=recompile_limit,
        )  # fmt: skip
    if not callable(model):
        raise AssertionError(f"A callable function is expected, but {type(model)} is provided.")
    from .._dynamo import config  # which needs this module first

    if disable or config.disable or _is_disabled(model):
        return model
    choice = (options or {}).get("guard_filter_fn")
    options = {name: value for name, value in (options or {}).items() if name != "guard_filter_fn"}
    tune, graphs = (
        mode is not None and mode.startswith("max-autotune"),
        backend == "cudagraphs" or mode in ("reduce-overhead", "max-autotune"),
    )
    if backend == "inductor":
        wanted = _wanted(options)
        tune, graphs = wanted[0] or tune, wanted[1] or graphs
    own = options if not isinstance(backend, str) else None
    how = _Options(fullgraph, backend, own, dynamic, tune, recompile_limit, graphs, choice)
    if isinstance(model, type):
        return model
    compiled = how(model)
    if not isinstance(model, Module):
        compiled._region.name = name
    return compiled


def _note_original(wrapper: Any, model: Any) -> None:
    """Notes what was wrapped, and who wraps it: `functools.wraps` copies attributes to wrappers that do more."""
    wrapper._torchdynamo_orig_callable, wrapper._torchdynamo_wrapper_id = model, id(wrapper)


def original(fn: Any, attribute: str = "_torchdynamo_orig_callable") -> Any:
    """What `compile` or `disable` was given to make a function; the function itself if they did not make it."""
    return getattr(fn, attribute, fn) if getattr(fn, "_torchdynamo_wrapper_id", None) == id(fn) else fn


def _is_disabled(fn: Any) -> bool:
    return getattr(fn, "_torchdynamo_disable", False) and getattr(fn, "_torchdynamo_wrapper_id", id(fn)) == id(fn)


def _wanted(options: dict[str, Any]) -> tuple[bool, bool]:
    """Whether options, or the switches that they stand for, ask for programs to be tried, and for CUDA graphs. Raises if there are no such options."""
    from .._inductor import config  # which needs this module first

    for name, value in options.items():
        known = config._read(name.replace("-", "_"))
        if isinstance(known, (bool, int, float, str)) and type(value) is not type(known):
            raise RuntimeError(
                f"Unexpected type of attr {name}, got {type(value).__name__} should be {type(known).__name__}"
            )
        if not isinstance(known, (bool, int, float, str)) and known is not None:
            raise RuntimeError(
                f"Unexpected optimization option {name}, known options are {[n for n in vars(config) if n[0] != '_']}"
            )
    graphs = options.get("triton.cudagraphs", config.triton.cudagraphs)
    return bool(options.get("max_autotune", config.max_autotune)), bool(graphs)


# -- marks and questions ---------------------------------------------------------------------------------------------


def is_compiling() -> bool:
    """Whether code is being recorded by `torch.compile` or `torch.export`."""
    return bool(modes.on & CAPTURE and local.captures) or is_exporting()


def is_dynamo_compiling() -> bool:
    """Whether code is being recorded by `torch.compile`."""
    return bool(modes.on & CAPTURE and local.captures)


def is_exporting() -> bool:
    """Whether code is being captured by `torch.export`."""
    return any(getattr(mode, "exports", False) for mode in local.function_modes)


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Keeps a function out of compiled programs. One that gives nothing is called while they run; what needs its results runs eagerly.
    Also a decorator, with or without arguments."""
    if fn is None:
        return lambda given: disable(given, recursive, reason=reason)
    if isinstance(fn, Module):
        fn.forward = disable(fn.forward, recursive, reason=reason)
        return fn

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not is_dynamo_compiling():
            return fn(*args, **kwargs)
        tape, given = local.captures[-1], (*args, *kwargs.values())
        problem = reason or f"{getattr(fn, '__qualname__', fn)} is kept out of compiled programs"
        if local.grad and any(getattr(a, "requires_grad", False) for a in leaves_in((args, kwargs))):
            tape.stop(problem, ours=False)
        elif not all([isinstance(a, Tensor) or plain(a) or tape.existed(a) for a in given]):
            tape.stop(problem, ours=False)  # it may change what the run has made and will read
        if tape.problem is not None:
            return fn(*args, **kwargs)
        before = tape.changed()
        out = tape.step(call, args, kwargs)
        # What it gives may be another number, object or part of an argument in each run, with another history, and so may what it changes.
        if out is not None or tape.changed() != before:
            tape.stop(problem, ours=False)
        return out

    call._torchdynamo_disable = True  # type: ignore[attr-defined]
    _note_original(call, fn)
    call._torchdynamo_disable_msg = reason  # type: ignore[attr-defined]
    return call


_steps: set[Any] = set()  # the code of functions that are steps of graphs


def allow_in_graph(fn: Any) -> Any:
    """Marks a function (or a list of them) as one step of compiled programs; the function itself.

    What it does is recorded as everything is. But it runs as it is: `torch._dynamo.graph_break()` says nothing there.
    """
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(one) for one in fn]
    if not callable(fn):
        raise AssertionError("allow_in_graph expects a callable")
    if inspect.isfunction(fn):
        _steps.add(fn.__code__)
    return fn


def runs_as_it_is() -> bool:
    """Whether a function that is a step of the graph runs."""
    frame = sys._getframe(2) if _steps else None
    while frame is not None and frame.f_code not in _steps:
        frame = frame.f_back
    return frame is not None


def assume_constant_result(fn: Any) -> Any:
    """Marks a function whose result never changes; the function itself."""
    return fn


def substitute_in_graph(
    original_fn: Any, *, can_constant_fold_through: bool = False, skip_signature_check: bool = False
) -> Callable[[Any], Any]:
    """Names a Python function that stands for a C function where a tracer reads bytecode. Calls are recorded here by what
    they do, so that the original is recorded as well as its substitute; the decorator checks the signatures, as PyTorch does.
    """
    if isinstance(original_fn, type) or not callable(original_fn):
        raise TypeError(f"substitute_in_graph expects a function but got {type(original_fn)!r}")

    def decorated(fn: Any) -> Any:
        if not inspect.isfunction(fn):
            raise TypeError(f"@substitute_in_graph(...) expects a function but got {type(fn)!r}")
        if not skip_signature_check:
            _check_same_signature(original_fn, fn)
        return fn

    return decorated


def _check_same_signature(original: Any, other: Any) -> None:
    """Refuses a function whose parameters have other names, kinds or defaults than those of the original."""
    try:
        expected = inspect.signature(original)
    except ValueError:  # a C function that does not say
        return
    found = inspect.signature(other)
    shapes = [[(p.name, p.kind, p.default is p.empty) for p in s.parameters.values()] for s in (expected, found)]
    if shapes[0] != shapes[1]:
        raise TypeError(f"Signature mismatch between {original} and {other}: {expected} != {found}")


def nested_compile_region(
    fn: Any = None, *, options: Any = None, max_reuse_entries: int = 8, reuse_hash_fn: Callable[..., Any] | None = None
) -> Any:
    """Marks a function that is compiled once and called often; the function itself.

    A function is recorded as a part of what calls it: there is no table of parts that `max_reuse_entries` and
    `reuse_hash_fn` could steer. `options` would choose another backend for the part, and are refused.
    """
    if options is not None:
        raise NotImplementedError("nested_compile_region: a part is compiled as what calls it is; leave options out")
    return (lambda given: given) if fn is None else fn


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function over NumPy arrays as one over tensors."""
    from .._ops.registry import ops
    from .._tensor import Tensor
    from ..utils._pytree import tree_map

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        def plain(a: Any) -> Any:
            return a.detach().cpu().numpy() if isinstance(a, Tensor) else a

        out = fn(*tree_map(plain, args), **tree_map(plain, kwargs))
        return tree_map(lambda a: ops.as_tensor(a) if hasattr(a, "__array__") else a, out)

    return wrapped


def reset() -> None:
    """Forgets all programs; functions are recorded again when they are called next."""
    for region in list(_regions):
        region.forget()


def cudagraph_mark_step_begin() -> None:
    """Says that a new step begins."""


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The backends that `compile` knows by name."""
    shown = [*_BACKENDS, *_state["registered"]]
    return sorted(shown if exclude_tags and "debug" in exclude_tags else [*shown, *_DEBUG_BACKENDS])


def set_default_backend(backend: str | Callable[..., Any] | None) -> None:
    """The backend that `compile` takes if none is named."""
    _state["backend"] = "inductor" if backend is None else backend


def get_default_backend() -> str | Callable[..., Any]:
    """The backend that `compile` takes if none is named."""
    return _state["backend"]


def set_enable_guard_collectives(enabled: bool) -> bool:
    """Whether processes agree about recompiling before they run; they do not, so that only False can be set. Gives the last value."""
    if enabled:
        raise NotImplementedError("each process checks its guards for itself: processes do not agree about recompiling")
    return False


class set_stance:
    """How compiled programs behave ("default", "force_eager", …), for good, in a `with` block or as a decorator.

    Guards are always checked, whatever `skip_guard_eval_unsafe` says: that takes a microsecond.
    """

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None
    ) -> None:
        if stance not in _STANCES:
            raise RuntimeError(f"invalid torch.compile stance {stance!r}; there are {', '.join(_STANCES)}")
        if force_backend is not None and stance != "default":
            raise RuntimeError("non-default stance cannot have force_backend set")
        if force_backend is not None and not isinstance(force_backend, str):  # those with names are all the same
            raise NotImplementedError("set_stance: a function keeps its backend; force_backend may only name one")
        self._before, _state["stance"] = _state["stance"], stance
        self.stance = stance

    def __enter__(self) -> None:
        _state["stance"] = self.stance

    def __exit__(self, *error: Any) -> None:
        _state["stance"] = self._before

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        _state["stance"] = self._before

        @functools.wraps(fn)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with set_stance(self.stance):
                return fn(*args, **kwargs)

        return inside


# -- which guards stay: choices for the option `guard_filter_fn` ------------------------------------------------------


def keep_portable_guards_unsafe(guard_entries: Any) -> list[bool]:
    """Keeps the guards that hold in other processes too: those of tensors, shapes and global modes."""
    return [entry.guard_type in ("TENSOR_MATCH", "GLOBAL_STATE", "SHAPE_ENV") for entry in guard_entries]


def keep_tensor_guards_unsafe(guard_entries: Any, keep_parameters: bool = False) -> list[bool]:
    """Keeps the guards of tensors; those of parameters only if wanted."""
    return [
        entry.guard_type == "TENSOR_MATCH" and (keep_parameters or not isinstance(entry.value, Parameter))
        for entry in guard_entries
    ]


def skip_guard_on_inbuilt_nn_modules_unsafe(guard_entries: Any) -> list[bool]:
    """Drops the guards of PyTorch's own layers."""
    return [not entry.orig_guard.source.is_unspecialized_builtin_nn_module() for entry in guard_entries]


def skip_guard_on_all_nn_modules_unsafe(guard_entries: Any) -> list[bool]:
    """Drops the guards of modules."""
    return [not entry.orig_guard.source.is_unspecialized_nn_module() for entry in guard_entries]


def skip_guard_on_globals_unsafe(guard_entries: Any) -> list[bool]:
    """Drops the guards of global variables."""
    return [not entry.is_global for entry in guard_entries]


def skip_all_guards_unsafe(guard_entries: Any) -> list[bool]:
    """Drops all guards."""
    return [False for _ in guard_entries]


def save_cache_artifacts() -> None:
    """What was compiled, as bytes; None, because there is nothing."""
    return None


def load_cache_artifacts(serialized_artifacts: bytes) -> None:
    """Takes what `save_cache_artifacts` gave; there is nothing to take."""
    return None


def load_compiled_function(
    file: Any, *, f_globals: dict[str, object] | None = None, external_data: dict[str, Any] | None = None
) -> Any:
    """Not available: compiled functions are not written to files."""
    raise NotImplementedError("compiled functions are not written to files here: call torch.compile in each process")
