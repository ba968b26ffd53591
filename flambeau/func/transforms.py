"""Derivatives as function transforms: `grad`, `vjp`, `jvp`, `jacrev`, `jacfwd`, `hessian`; they nest with each other and `vmap`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext
from threading import get_ident
from typing import Any, NamedTuple

from .._autograd.modes import enable_grad, inference_mode
from .._core.dtypes import FLOATING
from .._core.layouts import contiguous_format
from .._core.state import GRAD, local, modes
from .._core.steps import followed
from .._functorch.vmap import vmap
from .._ops.records.writable import overlaps_itself
from .._ops.registry import ops
from .._tensor import BirthMeta, Tensor, alias, detached, is_inference, meta_of
from ..autograd import grad as _autograd_grad
from ..autograd.forward_ad import _set_fwd_grad_enabled, dual_level, jvp_of, laid_out, set_tangent, tangent_of
from ..utils._pytree import tree_flatten, tree_map, tree_unflatten
from . import checks
from .batched import Batched, directions_only, front, make_batched, mapped_levels, next_level
from .tracking import entered
from .tracking import root as _root


class Open(NamedTuple):
    """An open transform that differentiates."""

    level: int
    kind: str  # Grad or Jvp


class transform:
    """A transform that differentiates is open: operations are recorded, and Functions must be fit for transforms.

    Gives whether its results are part of what is recorded outside: not under `no_grad` or in inference mode.
    """

    def __init__(self, kind: str = "Grad"):
        self._kind = kind

    def __enter__(self) -> bool:
        forward = self._kind == "Jvp"  # tangents do without the recording
        if not forward:
            checks.hooks()
        self._outer = local.grad
        self._normal = inference_mode(False)
        self._normal.__enter__()
        local.grad = self._outer if forward else True
        self._others = local.transforms
        local.transforms = (*self._others, Open(next_level(), self._kind))
        self._mark = modes.mark(BirthMeta(local.transforms))
        return self._outer

    def __exit__(self, *error: Any) -> None:
        modes.mark(self._mark)
        local.transforms = self._others
        self._normal.__exit__(*error)
        local.grad = self._outer


def _lift(t: Tensor) -> Tensor:
    """A tensor batched at every open level of vmap, so that each sample has its own derivative; the samples share memory."""
    for level, size, _ in mapped_levels():
        if not _is_batched_at(t, level):
            t = _batch_below(t, level, size)
    return t


def _lifted_copy(t: Tensor) -> Tensor:
    """The same with memory of its own for each sample: tangents are written to."""
    lifted = _lift(t)
    shared = lifted is not t or (isinstance(t, Batched) and overlaps_itself(_root(t)._array))
    return _rewrap(lifted, ops.clone(_root(lifted))) if shared else lifted


def _is_batched_at(t: Any, level: int) -> bool:
    while isinstance(t, Batched):
        if t.level == level:
            return True
        t = t.value
    return False


def _batch_below(t: Tensor, level: int, size: int) -> Tensor:
    if isinstance(t, Batched) and t.level > level:
        return make_batched(_batch_below(t.value, level, size), t.bdim, t.level)
    return make_batched(ops.expand(ops.unsqueeze(t, 0), (size, *t._array.shape)), 0, level)


def _rewrap(like: Tensor, root: Tensor, shift: int = 0) -> Tensor:
    """`root` batched as `like` is; a root that is batched at deeper levels keeps those outside."""
    if isinstance(root, Batched):
        return make_batched(_rewrap(like, front(root), shift + 1), 0, root.level)
    if isinstance(like, Batched):
        return make_batched(_rewrap(like.value, root, shift), like.bdim + shift, like.level)
    return root


def _without_history(t: Tensor) -> Tensor:
    """The same memory and tangent; new to the transform, also if the tensor was made in inference mode."""
    other = _own(detached(t))
    set_tangent(other, tangent_of(t))
    return other


def _own(t: Tensor) -> Tensor:
    """Counts a new tensor as made inside the innermost transform, whoever owns its memory."""
    marks, root = modes.inferring, _root(t)
    tangent = tangent_of(root)
    root._autograd_meta = None if marks is None else marks.get(get_ident())
    if tangent is not None:
        meta_of(root).tangent = tangent
    return t


def _fresh(t: Tensor, connected: bool) -> tuple[Tensor, Tensor]:
    """(a tensor to differentiate by, one for the function): new to this transform, and `connected` to an outer one."""
    t = _lift(t)
    root = _root(t)
    if root.dtype.category < FLOATING:
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    if connected and root._k & GRAD:
        leaf = ops.view_as(root, root)
    else:
        leaf = _without_history(root)
        leaf._k |= GRAD
    given = _without_history(leaf)
    given._k |= GRAD
    given._edge = (entered(leaf), 0)
    return _rewrap(t, leaf), _rewrap(t, given)


def _aligned(out: Tensor, base: Any) -> Tensor:
    """An output with the batch dimensions of the levels in `base` first, outermost first; deeper levels stay."""
    for level, size, _ in base:
        if not _is_batched_at(out, level):
            out = _batch_below(out, level, size)
    return _flattened(out, {level for level, _, _ in base})


def _flattened(t: Tensor, base: set[int]) -> Tensor:
    if not isinstance(t, Batched):
        return t
    inner = front(t)
    if t.level in base:
        return _flattened(inner, base)
    return make_batched(_flattened(inner, base), len(base), t.level)


def _wrap_all(t: Tensor, at: int = 0) -> Tensor:
    """Inverse of `_aligned` for the open levels."""
    if isinstance(t, Batched):
        return make_batched(_wrap_all(front(t), at + 1), 0, t.level)
    for level, _, _ in mapped_levels():
        t = make_batched(t, at, level)
    return t


def _attached(outs: list[Tensor], leaves: list[Tensor], connected: bool) -> bool:
    """Whether derivatives of outputs can be differentiated by something outside of the transform."""
    if not connected:
        return False
    own = {id(_root(t)) for t in leaves if _root(t)._edge is None}
    return any(_hangs_on_others(_root(t), own) for t in outs if _root(t)._k & GRAD)


def _settle(result: Any, leaves: list[Tensor], connected: bool) -> Any:
    """Results that hang on nothing but the transform's own leaves lose their history; all do if not `connected`."""
    own = {id(_root(t)) for t in leaves if _root(t)._edge is None}

    def settled(t: Any) -> Any:
        if not isinstance(t, Tensor):
            return t
        root = _root(t)
        tangent = tangent_of(root)
        if tangent is not None:
            set_tangent(root, settled(tangent))
        if not root._k & GRAD or (connected and _hangs_on_others(root, own)):
            return t
        return _rewrap(t, _without_history(root))

    return tree_map(settled, result)


def _hangs_on_others(t: Tensor, own: set[int]) -> bool:
    """Whether the history of a tensor leads to leaves that are not among the transform's own."""
    stack, seen = [t._edge or (t, 0)], set()
    while stack:
        target, _ = stack.pop()
        if id(target) in seen:
            continue
        seen.add(id(target))
        if isinstance(target, Tensor):
            if id(target) not in own and target._k & GRAD:
                return True
            continue
        stack += [e for e in target.edges if e is not None]
    return False


def _gradients(
    outputs: list[Tensor], inputs: list[Tensor], cotangents: list[Tensor], base: Any, attached: bool, keep: bool = True
) -> list[Tensor]:
    """The gradients; differentiable again if they are `attached` to something outside. The graph is not kept but for `keep`."""
    roots = [_aligned(o, base) for o in outputs]
    given = [_aligned(c, base) for c in cotangents]
    given = [_rewrap(c, _without_history(_root(c))) if is_inference(_root(c)) else c for c in given]
    wanted = [_root(i) for i in inputs]
    pairs = [(o, c) for o, c in zip(roots, given) if o._k & GRAD]
    if pairs:
        again = attached or any([_root(c)._k & GRAD for _, c in pairs])
        found = _autograd_grad(
            [o for o, _ in pairs], wanted, [c for _, c in pairs], keep or again, create_graph=again, allow_unused=True
        )
    else:
        found = (None,) * len(wanted)
    return [_rewrap(i, ops.zeros_like(detached(w)) if g is None else g) for i, w, g in zip(inputs, wanted, found)]


def grad_and_value(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives the gradient of a scalar function and its value.

    >>> import flambeau as torch
    >>> torch.func.grad_and_value(lambda x: (x * x).sum())(torch.tensor([1.0, 2.0]))
    (tensor([2., 4.]), tensor(5.))
    """

    @followed
    @functools.wraps(func)
    def wrapped(*args: Any, **named: Any) -> Any:
        numbers = checks.chosen(args, argnums)
        with transform() as connected:
            flat, spec = tree_flatten(tuple(args[n] for n in numbers))
            leaves, given = _entries(flat, connected)
            replaced = _among(args, numbers, tree_unflatten(given, spec))
            out, aux = checks.with_aux("grad_and_value(f)(*args)", func(*replaced, **named), has_aux)
            if not isinstance(out, Tensor):
                raise RuntimeError(
                    f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(out).__name__}"
                )
            if out._array.ndim:
                raise RuntimeError(
                    f"grad_and_value(f)(*args): Expected f(*args) to return a scalar tensor, got {out._array.ndim} dims; "
                    "use vjp or jacrev for more"
                )
            tensors = [t for t in leaves if isinstance(t, Tensor)]
            nested = len(local.transforms) > 1
            attached = nested or _attached([out], tensors, connected)
            found = iter(_gradients([out], tensors, [_ones_like(out)], mapped_levels(), attached, False))
            grads = tree_unflatten([next(found) if isinstance(t, Tensor) else None for t in leaves], spec)
            grads = grads[0] if isinstance(argnums, int) else grads
            grads, out, aux = _settle((grads, out, aux), tensors, connected and (has_aux or attached))
            return (grads, (out, aux)) if has_aux else (grads, out)

    return wrapped


def _entries(flat: list[Any], connected: bool) -> tuple[list[Any], list[Any]]:
    pairs = [_fresh(t, connected) if isinstance(t, Tensor) else (t, t) for t in flat]
    return [p[0] for p in pairs], [p[1] for p in pairs]


def _among(args: tuple[Any, ...], numbers: Any, values: Any) -> list[Any]:
    """The arguments with those that are differentiated by replaced; the others, too, may be written to."""
    chosen = {n % len(args): value for n, value in zip(numbers, values)}
    return [chosen[n] if n in chosen else tree_map(_along, a) for n, a in enumerate(args)]


def _along(t: Any) -> Any:
    plain = (t.__class__ is Tensor or t.__class__ is Batched) and not _root(t)._k & GRAD
    return _own(alias(t)) if plain else t


def _ones_like(t: Tensor) -> Tensor:
    return ops.ones_like(_detached(t))


def _detached(t: Tensor) -> Tensor:
    return _rewrap(t, detached(_root(t)))


def grad(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives the gradient of a scalar function.

    >>> import flambeau as torch
    >>> torch.func.grad(torch.func.grad(torch.sin))(torch.tensor(0.5))
    tensor(-0.4794)
    """
    both = grad_and_value(func, argnums, has_aux)

    @followed
    @functools.wraps(func)
    def wrapped(*args: Any, **named: Any) -> Any:
        grads, value = both(*args, **named)
        return (grads, value[1]) if has_aux else grads

    return wrapped


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of a function and a function that multiplies a vector with its Jacobian.

    >>> import flambeau as torch
    >>> value, back = torch.func.vjp(torch.sin, torch.tensor([0.0, 1.0]))
    >>> back(torch.ones(2))
    (tensor([1.0000, 0.5403]),)
    """
    where = "vjp(f, *primals)"
    with transform() as connected:
        base = mapped_levels()
        flat, spec = tree_flatten(primals)
        leaves, entered = _entries(flat, connected)
        tensors = [t for t in leaves if isinstance(t, Tensor)]
        out, aux = checks.with_aux(where, func(*tree_unflatten(entered, spec)), has_aux)
        outs, out_spec = checks.outputs(where, out)
        attached = _attached(outs, tensors, connected)

        def back(cotangents: Any, *more: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
            recorded = local.grad
            with inference_mode(False), enable_grad():
                given, given_spec = tree_flatten((cotangents, *more) if more else cotangents)
                if given_spec != out_spec:
                    raise RuntimeError(
                        "vjp: Expected pytree structure of cotangents to be the same as pytree structure of outputs to "
                        f"the function. cotangents: {given_spec}, primal output: {out_spec}"
                    )
                found = iter(_gradients(outs, tensors, given, base, attached or bool(local.transforms)))
                grads = tree_unflatten([next(found) if isinstance(t, Tensor) else None for t in leaves], spec)
                return _settle(grads, tensors, recorded)

        value = tree_unflatten([_settle(o, tensors, connected) for o in outs], out_spec)
        return (value, back, _settle(aux, tensors, connected)) if has_aux else (value, back)


@followed
def jvp(func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """The value of a function and the product of its Jacobian with `tangents`.

    >>> import flambeau as torch
    >>> torch.func.jvp(torch.sin, (torch.tensor([0.0]),), (torch.tensor([2.0]),))[1]
    tensor([2.])
    """
    flat, directions, spec = checks.primals_and_tangents(primals, tangents)

    def run(given: list[Tensor]) -> tuple[list[Tensor], Any, Any]:
        where = "jvp(f, primals, tangents)"
        out, aux = checks.with_aux(where, func(*tree_unflatten(given, spec)), has_aux)
        return (*checks.outputs(where, out), aux)

    forward = _by_tangents if local.duals is None else _by_differentiating_twice
    outs, found, out_spec, aux = forward(run, flat, directions)
    if strict and any(t is None for t in found):
        raise RuntimeError(
            "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not allowed "
            "with strict=True."
        )
    made = [ops.zeros_like(_detached(o)) if t is None else t for t, o in zip(found, outs)]
    value, tangent = tree_unflatten(outs, out_spec), tree_unflatten(made, out_spec)
    return (value, tangent, aux) if has_aux else (value, tangent)


def _by_tangents(run: Any, flat: list[Tensor], directions: list[Tensor]) -> tuple[list[Tensor], list[Any], Any, Any]:
    """(outputs, their tangents, how they were arranged, aux) of a function of tensors that carry tangents."""
    with transform("Jvp") as connected, dual_level(), _set_fwd_grad_enabled(True):
        given = []
        for t, direction in zip(flat, directions):
            lifted = _lifted_copy(t)
            plain = _root(lifted)
            if connected and plain._k & GRAD:
                value = _own(ops.view_as(plain, plain))
            else:
                value = _without_history(plain)
            if value.dtype.category >= FLOATING:
                tangent = laid_out(value, _placed(direction, lifted))
                set_tangent(value, _own(alias(tangent)))
            given.append(_rewrap(lifted, value))
        outs, out_spec, aux = run(given)
        found = [None if tangent_of(_root(o)) is None else _rewrap(o, tangent_of(_root(o))) for o in outs]
    return outs, found, out_spec, aux


def _by_differentiating_twice(
    run: Any, flat: list[Tensor], directions: list[Tensor]
) -> tuple[list[Tensor], list[Any], Any, Any]:
    """The same inside another `jvp`, since a tensor carries one tangent: backward is linear in what it begins with."""
    with transform("Jvp") as connected, enable_grad():
        leaves, entered = _entries(flat, connected)
        outs, out_spec, aux = run(entered)
        roots = [_aligned(o, mapped_levels()) for o in outs]
        placed = [
            ops.clone(_placed(d, leaf)) for d, leaf in zip(directions, leaves)
        ]  # a `jvp` may write to its tangents
        tangents = jvp_of(roots, [_root(t) for t in leaves], placed, create_graph=True)
        found = [None if t is None else _wrap_all(t) for t in tangents]
        outs, found, aux = _settle((outs, found, aux), leaves, connected)
        return outs, found, out_spec, aux


def _placed(t: Tensor, like: Tensor) -> Tensor:
    """The values of `t` with the batch dimensions where the values of `like` have them; those of `like` alone."""
    base = [level for level, _, _ in mapped_levels()]
    aligned = _aligned(_lifted_copy(t), mapped_levels())
    places: list[Any] = [len(base) + i for i in range(like._array.ndim)]
    while isinstance(like, Batched):
        places.insert(like.bdim, base.index(like.level))
        like = like.value
    return aligned if places == sorted(places) else ops.permute(aligned, places)


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The value of a function and the linear map that is its derivative there."""
    value = func(*primals)
    return value, lambda *tangents: jvp(func, primals, tangents)[1]


def _stacked(results: list[Any]) -> Any:
    flat = [tree_flatten(r)[0] for r in results]
    return tree_unflatten([ops.stack(list(parts)) for parts in zip(*flat)], tree_flatten(results[0])[1])


def _basis(t: Tensor) -> Tensor:
    count = t._array.size
    return ops.reshape(ops.eye(count, dtype=t.dtype, device=t.device), (count, *t._array.shape))


def _samples_apart(jacobian: Tensor) -> Tensor:
    """The Jacobians of a batch one after the other in memory: gradients bring the rows first, and views count on the batch."""
    if not isinstance(jacobian, Batched):
        return jacobian
    value = front(jacobian)
    (batch, *strides), (_, *shape) = value._array.strides, value._array.shape
    if batch and any([stride > batch for stride, extent in zip(strides, shape) if extent > 1]):
        value = ops.clone(value, memory_format=contiguous_format)
    return make_batched(_samples_apart(value), 0, jacobian.level)


def jacrev(
    func: Callable[..., Any], argnums: Any = 0, *, has_aux: bool = False, chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:  # fmt: skip
    """A function that gives the Jacobian, computed row by row in one batch.

    >>> import flambeau as torch
    >>> torch.func.jacrev(torch.sin)(torch.tensor([0.0, 1.0]))
    tensor([[1.0000, 0.0000],
            [0.0000, 0.5403]])
    """

    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @followed
    @functools.wraps(func)
    def wrapped(*args: Any, **named: Any) -> Any:
        numbers = checks.chosen(args, argnums)

        def partial(*chosen: Any) -> Any:
            replaced = _among(args, numbers, chosen)
            return func(*replaced, **named)

        primals = tuple(args[n] for n in numbers)
        aux = None
        if has_aux:
            value, back, aux = vjp(partial, *primals, has_aux=True)
        else:
            value, back = vjp(partial, *primals)
        outs, out_spec = tree_flatten(value)
        flat, spec = tree_flatten(primals)
        checks.real("jacrev", "input", flat)
        checks.real("jacrev", "output", outs)
        rows = []
        for i, out in enumerate(outs):

            def one(cotangent: Tensor, i: int = i) -> Any:
                zeros = [ops.zeros_like(_detached(o)) if j != i else cotangent for j, o in enumerate(outs)]
                return back(tree_unflatten(zeros, out_spec))

            if chunk_size == 1:  # row by row, so that backward need not be one that can be mapped
                found = _stacked([one(row) for row in ops.unbind(_basis(out), 0)])
            else:
                found = vmap(one, chunk_size=chunk_size)(_basis(out))
            leaves, _ = tree_flatten(found)
            shaped = [ops.reshape(g, (*out._array.shape, *t._array.shape)) for g, t in zip(leaves, flat)]
            row = tree_unflatten([_samples_apart(g) for g in shaped], spec)
            rows.append(row[0] if isinstance(argnums, int) else row)
        result = tree_unflatten(rows, out_spec)
        return (result, aux) if has_aux else result

    return wrapped


def jacfwd(
    func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """A function that gives the Jacobian, computed column by column in one batch.

    >>> import flambeau as torch
    >>> torch.func.jacfwd(torch.sin)(torch.tensor([0.0, 1.0]))
    tensor([[1.0000, 0.0000],
            [0.0000, 0.5403]])
    """

    @followed
    @functools.wraps(func)
    def wrapped(*args: Any, **named: Any) -> Any:
        numbers = checks.chosen(args, argnums)
        primals = tuple(args[n] for n in numbers)
        flat, spec = tree_flatten(primals)
        checks.real("jacfwd", "input", flat)

        def partial(*leaves: Any) -> Any:
            replaced = _among(args, numbers, tree_unflatten(leaves, spec))
            return func(*replaced, **named)

        columns, aux, out_spec, shapes = [], None, None, []
        for i, t in enumerate(flat):

            def one(direction: Tensor, i: int = i) -> Any:
                tangents = tuple(direction if j == i else ops.zeros_like(_detached(p)) for j, p in enumerate(flat))
                with nullcontext() if randomness == "different" else directions_only():
                    return jvp(partial, tuple(flat), tangents, has_aux=has_aux)[1:]

            made = vmap(one, randomness=randomness)(_basis(t))
            if has_aux:
                tangent, aux = made
                aux = tree_map(lambda a: ops.select(a, 0, 0), aux)  # the same for all directions
            else:
                (tangent,) = made
            leaves, out_spec = tree_flatten(tangent)
            checks.real("jacfwd", "output", leaves)
            moved = [ops.movedim(leaf, 0, -1) for leaf in leaves]  # here: containers may say where their batches are
            shapes = [leaf._array.shape[:-1] for leaf in moved]
            columns.append([ops.reshape(leaf, (*s, *t._array.shape)) for leaf, s in zip(moved, shapes)])
        rows = []
        for k in range(len(shapes)):
            row = tree_unflatten([c[k] for c in columns], spec)
            rows.append(row[0] if isinstance(argnums, int) else row)
        assert out_spec is not None
        result = tree_unflatten(rows, out_spec)
        return (result, aux) if has_aux else result

    return wrapped


def hessian(func: Callable[..., Any], argnums: Any = 0) -> Callable[..., Any]:
    """A function that gives the second derivatives of a scalar function.

    >>> import flambeau as torch
    >>> torch.func.hessian(lambda x: (x ** 3).sum())(torch.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
