"""Both passes of a function as graphs of aten operators, in the hands of compilers that programs bring."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .. import fx
from .._core.state import local
from .._tensor import Tensor
from ..autograd import Function, grad
from ..autograd.grad_mode import no_grad
from ..func import functional_call
from ..fx.experimental.proxy_tensor import make_fx
from ..fx.passes.shape_prop import _extract_tensor_metadata
from ..nn.modules.module import Module
from ..utils._pytree import tree_flatten, tree_unflatten
from .partitioners import default_partition

__all__ = ["aot_function", "aot_module", "aot_module_simplified", "compiled_function", "compiled_module", "make_boxed_compiler", "make_boxed_func", "nop"]  # fmt: skip


def make_boxed_func(f: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    """A function of one list of arguments; compilers that give such functions may let go of arguments early.

    >>> from flambeau._functorch.aot_autograd import make_boxed_func
    >>> make_boxed_func(max)([1, 3])
    3
    """

    def boxed(args: list[Any]) -> Any:
        return f(*args)

    boxed._boxed_call = True  # type: ignore[attr-defined]
    return boxed


def make_boxed_compiler(compiler: Callable[..., Any]) -> Callable[..., Any]:
    """A compiler whose results take one list of arguments."""

    @functools.wraps(compiler)
    def boxing(gm: Any, inps: Any) -> Any:
        made = compiler(gm, inps)
        return made if getattr(made, "_boxed_call", False) else make_boxed_func(made)

    return boxing


def nop(fx_g: fx.GraphModule, _: Any) -> fx.GraphModule:
    """A compiler that gives the graph as it is."""
    return fx_g


def _called(function: Any, args: Sequence[Any]) -> list[Any]:
    out = function(list(args)) if getattr(function, "_boxed_call", False) else function(*args)
    return list(out) if isinstance(out, (tuple, list)) else [out]


class _Options:
    """What a program wants done with the graphs of a function."""

    def __init__(
        self, fw_compiler: Any, bw_compiler: Any = None, partition_fn: Any = None, decompositions: Any = None, inference_compiler: Any = None
    ):  # fmt: skip
        self.forward, self.backward = fw_compiler, bw_compiler or fw_compiler
        self.partition, self.inference = partition_fn or default_partition, inference_compiler or fw_compiler
        self.rules = decompositions() if callable(decompositions) else dict(decompositions or {})

    def traced(self, function: Any, args: Sequence[Any], names: Sequence[str]) -> fx.GraphModule:
        """The graph of a function of tensors, which runs without elements; `names`: of its arguments."""
        found = make_fx(function, decomposition_table=self.rules, tracing_mode="fake")(*args)
        made, known, given = fx.Graph(), dict[fx.Node, fx.Node](), iter(names)
        for node in found.graph.nodes:
            known[node] = (
                made.placeholder(next(given)) if node.op == "placeholder" else made.node_copy(node, lambda a: known[a])
            )
            known[node].meta = dict(node.meta)
            if isinstance(node.meta.get("val"), Tensor):
                known[node].meta.setdefault("tensor_meta", _extract_tensor_metadata(node.meta["val"]))
        known[node].args = (tuple(known[node].args[0]),)
        return fx.GraphModule(found, made)

    def without_history(self, function: Any, primals: Sequence[Tensor]) -> Callable[..., list[Any]]:
        """What an inference compiler makes of a function."""
        module = self.traced(function, [p.detach() for p in primals], [f"arg{i}_1" for i in range(len(primals))])
        compiled = self.inference(module, _examples(module))

        def run(*args: Tensor) -> list[Any]:
            with no_grad():
                return _called(compiled, args)

        return run

    def with_history(self, function: Any, primals: Sequence[Tensor]) -> Callable[..., list[Any]]:
        """What compilers make of both passes of a function, as a node of autograd."""
        leaves = [p.detach().requires_grad_(p.requires_grad) for p in primals]
        wanted = [i for i, p in enumerate(leaves) if p.requires_grad]
        seen: list[Any] = []
        given: dict[int, int] = {}  # outputs that are arguments: their numbers

        def watched(*args: Tensor) -> Any:
            seen[:] = function(*args)
            given.update({i: k for i, out in enumerate(seen) for k, a in enumerate(args) if a is out})
            return list(seen)

        names = [f"primals_{i + 1}" for i in range(len(leaves))]
        self.traced(watched, leaves, names)
        about = [isinstance(out, Tensor) and out.requires_grad and i not in given for i, out in enumerate(seen)]
        if not any(about):
            return self.without_history(function, primals)
        count = len(seen)
        tangents = [
            Tensor.new_empty(leaves[0], out.shape, dtype=out.dtype) for out, differs in zip(seen, about) if differs
        ]

        def joint(*args: Tensor) -> Any:
            own = args[: len(leaves)]
            outs = function(*own)
            ends = [out for out, differs in zip(outs, about) if differs]
            made = grad(ends, [own[i] for i in wanted], args[len(leaves) :], allow_unused=True)
            gradients: list[Any] = [None] * len(leaves)
            for i, g in zip(wanted, made):
                gradients[i] = g
            return [*outs, *gradients]

        both = [*leaves, *tangents]
        module = self.traced(joint, both, [*names, *[f"tangents_{i + 1}" for i in range(len(tangents))]])
        first, second = self.partition(module, both, num_fwd_outputs=count, static_lifetime_input_indices=[])
        forward = self.forward(first, _examples(first))
        backward = self.backward(second, _examples(second))
        tensors = [i for i, out in enumerate(seen) if isinstance(out, Tensor) and i not in given]
        others = [None if isinstance(out, Tensor) else out for out in seen]

        class CompiledFunction(Function):
            @staticmethod
            def forward(ctx: Any, *args: Tensor) -> tuple[Tensor, ...]:
                made = _called(forward, args)
                ctx.save_for_backward(*made[count:])
                outs = tuple([made[i] for i in tensors])
                ctx.mark_non_differentiable(*[out for i, out in zip(tensors, outs) if not about[i]])
                return outs

            @staticmethod
            def backward(ctx: Any, *given: Tensor) -> tuple[Any, ...]:
                differing = [g for i, g in zip(tensors, given) if about[i]]
                with no_grad():
                    return tuple(_called(backward, [*ctx.saved_tensors, *differing]))

        def run(*args: Tensor) -> list[Any]:
            outs = list(others)
            for i, out in zip(tensors, CompiledFunction.apply(*args)):
                outs[i] = out
            for i, k in given.items():
                outs[i] = args[k]
            return outs

        return run

    def compiled(self, function: Any, primals: Sequence[Tensor]) -> Callable[..., list[Any]]:
        """The function as compilers make it, for tensors like these."""
        tracked = bool(local.grad) and any([p.requires_grad for p in primals])
        return (self.with_history if tracked else self.without_history)(function, primals)


def _examples(module: fx.GraphModule) -> list[Any]:
    """The tensors without elements that a graph was made with."""
    return [node.meta.get("val") for node in module.graph.nodes if node.op == "placeholder"]


def _form(leaf: Any) -> Any:
    """What the graphs of a function depend on of an argument."""
    if isinstance(leaf, Tensor):
        return tuple(leaf.shape), leaf.stride(), leaf.dtype, leaf.device, leaf.requires_grad
    return type(leaf), leaf


def aot_function(
    fn: Callable[..., Any],
    fw_compiler: Any,
    bw_compiler: Any = None,
    partition_fn: Any = default_partition,
    decompositions: Any = None,
    num_params_buffers: int = 0,
    keep_inference_input_mutations: bool = False,
    inference_compiler: Any = None,
    *,
    dynamic: bool = False,
    **options: Any,
) -> Callable[..., Any]:
    """A function whose forward and backward graphs of aten operators are given to compilers, when it is called for the first time.

    Graphs are for given sizes and dtypes: others have graphs of their own. Numbers among the arguments are constants of the graphs.

    >>> import flambeau as torch
    >>> from flambeau._functorch.aot_autograd import aot_function, nop
    >>> compiled = aot_function(lambda x: x.sin().sum(), nop)
    >>> x = torch.zeros(2, requires_grad=True)
    >>> compiled(x).backward()
    >>> x.grad
    tensor([1., 1.])
    """
    wishes = _Options(fw_compiler, bw_compiler, partition_fn, decompositions, inference_compiler)
    known: dict[Any, Any] = {}

    @functools.wraps(fn)
    def compiled(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = tree_flatten((args, kwargs))
        key = (bool(local.grad), str(spec), *map(_form, leaves))
        if key not in known:
            places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
            fixed = [None if isinstance(leaf, Tensor) else leaf for leaf in leaves]
            shape: list[Any] = []

            def flat(*tensors: Tensor) -> list[Any]:
                own = list(fixed)
                for i, t in zip(places, tensors):
                    own[i] = t
                inner, more = tree_unflatten(own, spec)
                outs, form = tree_flatten(fn(*inner, **more))
                shape[:] = [form]
                return outs

            known[key] = wishes.compiled(flat, [leaves[i] for i in places]), shape
        run, shape = known[key]
        return tree_unflatten(run(*[leaf for leaf in leaves if isinstance(leaf, Tensor)]), shape[0])

    return compiled


class _Held(Module):
    """A module whose parameters and buffers are arguments of its graphs."""

    def __init__(self, mod: Module, *args: Any, **kwargs: Any):
        super().__init__()
        self.orig_module = mod
        self.__dict__["compiled"] = aot_function(functools.partial(functional_call, mod), *args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        held = {**dict(self.orig_module.named_parameters()), **dict(self.orig_module.named_buffers())}
        return self.__dict__["compiled"](held, args, kwargs)


def aot_module(mod: Module, *args: Any, **kwargs: Any) -> Module:
    """A module whose graphs are given to compilers; see `aot_function` for the other arguments."""
    return _Held(mod, *args, **kwargs)


def aot_module_simplified(
    mod: Module,
    args: Sequence[Any],
    fw_compiler: Any,
    bw_compiler: Any = None,
    partition_fn: Any = default_partition,
    decompositions: Any = None,
    keep_inference_input_mutations: bool = False,
    inference_compiler: Any = None,
    **options: Any,
) -> Callable[..., Any]:
    """The same for a module of which the arguments are known: its graphs are made at once, for tensors like `args`."""
    wishes = _Options(fw_compiler, bw_compiler, partition_fn, decompositions, inference_compiler)
    held = {**dict(mod.named_parameters()), **dict(mod.named_buffers())}
    whole: list[bool] = []

    def flat(*tensors: Any) -> list[Any]:
        out = functional_call(mod, dict(zip(held, tensors)), tensors[len(held) :])
        whole[:] = [not isinstance(out, (tuple, list))]
        return [out] if whole[0] else list(out)

    run = wishes.compiled(flat, [*held.values(), *args])

    def forward(*runtime_args: Any) -> Any:
        if len(runtime_args) == 1 and isinstance(runtime_args[0], list):
            runtime_args = tuple(runtime_args[0])
        out = run(*held.values(), *runtime_args)
        return out[0] if whole[0] else tuple(out)

    for name in ("zero_grad", "named_parameters", "named_buffers"):
        setattr(forward, name, getattr(mod, name))
    return forward


compiled_function, compiled_module = aot_function, aot_module
