"""Derivatives checked against finite differences."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .._autograd import engine
from .._core.state import DUAL, GRAD, SPARSE
from .._ops.registry import ops
from .._tensor import Tensor, detached, meta_of, wrap
from ._differences import (
    GradcheckError,
    Moved,
    analytical_matrices,
    array_of,
    compare,
    difference,
    directions,
    elements_of,
    gradients,
    interleaved,
    numerical_matrices,
    outputs_of,
)

# -- the check -------------------------------------------------------------------------------------------------------


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether the derivatives of `func` at `inputs` (float64, a few elements) agree with finite differences.

    `masked` says whether the elements that a sparse input does not have stay as they are. With `fast_mode` derivatives are
    compared in one random direction, which takes a few calls whatever the sizes are.

    >>> import flambeau as torch
    >>> x = torch.tensor([0.3, 0.7], dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradcheck(torch.sin, (x,))
    True
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    try:
        _check_inputs(given)
        func = _of_history(func, given)
        outputs, targets = (_check_projected if fast_mode else _check)(
            func,
            given,
            eps,
            (atol, rtol),
            nondet_tol,
            check_grad_dtypes,
            check_forward_ad,
            check_backward_ad,
            bool(masked),
        )
        if check_backward_ad and any(t._k & GRAD for t in outputs):
            _check_multiplied(func, given, list(targets.values()), bool(masked))
            if check_undefined_grad:
                _check_undefined(outputs_of(func(*given)))
            if check_batched_grad:
                _check_batched(outputs, list(targets.values()))
        if check_forward_ad and check_undefined_grad:
            _check_missing_tangents(func, given, targets)
        if check_batched_forward_grad:
            _check_batched_forward(func, given, targets)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check_inputs(inputs: tuple[Any, ...]) -> None:
    any_target = False
    for i, t in enumerate(inputs):
        if not isinstance(t, Tensor) or not t.requires_grad:
            continue
        any_target = True
        if t.dtype.itemsize < (16 if t.dtype.is_complex else 8):
            warnings.warn(
                f"Input #{i} requires gradient and is not a double precision floating point or complex. This check will "
                "likely fail if all the inputs are not of double precision floating point or complex.",
                stacklevel=4,
            )
        if (
            not t._k & SPARSE
            and t._array.size
            and any(s == 0 and n > 1 for s, n in zip(t._array.strides, t._array.shape))
        ):
            raise RuntimeError(
                f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs that are non-overlapping to "
                "be able to compute the numerical gradients correctly. You should call .contiguous on the input before "
                "passing it to gradcheck."
            )
        t.retain_grad()
    if not any_target:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the them have requires_grad=True."
        )


def _of_history(func: Callable[..., Any], inputs: tuple[Any, ...]) -> Callable[..., Any]:
    """The function without the outputs that have no history, where others have one: those are not checked."""
    tracked = [bool(t._k & GRAD) for t in outputs_of(func(*inputs))]
    if all(tracked) or not any(tracked):
        return func
    return lambda *given: [t for t, kept in zip(outputs_of(func(*given)), tracked) if kept]


def _begin(func: Callable[..., Any], inputs: tuple[Any, ...], masked: bool) -> tuple[dict[int, Moved], list[Any]]:
    """The inputs that are moved, by their places, and the shapes and dtypes of the outputs."""
    outputs = outputs_of(func(*inputs))
    for out in outputs:
        if out._k & SPARSE:
            raise ValueError(
                "Sparse output is not supported at gradcheck yet. Please call to_dense(masked_grad=...) on the output of fn "
                "for gradcheck."
            )
    moved = {i: Moved(t, masked) for i, t in enumerate(inputs) if isinstance(t, Tensor) and t._k & GRAD}
    return moved, [(tuple(t._array.shape), t.dtype) for t in outputs]


def _check_zero(numerical: list[Any], eps: float) -> None:
    for per_output in numerical:
        for found in per_output:
            if not np.allclose(found, 0, atol=eps):
                raise GradcheckError("Numerical gradient for function expected to be zero")


def _check_projected(
    func: Callable[..., Any], inputs: tuple[Any, ...], eps: float, tol: tuple[float, float], nondet_tol: float,
    check_dtypes: bool, forward: bool, backward: bool, masked: bool,
) -> tuple[list[Tensor], dict[int, Moved]]:  # fmt: skip
    """Compares derivatives in one random direction of each input and each output; where they differ, the matrices decide."""
    given = func, inputs, eps, tol, nondet_tol, check_dtypes, forward, backward, masked
    moved, shapes = _begin(func, inputs, masked)
    rng = np.random.default_rng(0)
    steps = {i: _positive(rng, (len(m.places),), m.tensor.dtype) for i, m in moved.items()}
    starts = [_positive(rng, shape, d) for shape, d in shapes]
    numerical = {
        i: [
            change / (2 * eps)
            for change in difference(func, inputs, i, lambda sign: m.along(steps[i], sign * eps), shapes)
        ]
        for i, m in moved.items()
    }
    outputs = outputs_of(func(*inputs))  # what the first call kept was written to
    if backward and not any(t._k & GRAD for t in outputs):
        _check_zero(list(numerical.values()), eps)
        return outputs, moved

    def agree(found: Any, expected: Any, i: int, place: int) -> bool:
        atol = tol[0] * max(np.abs(starts[i]).sum() * np.abs(steps[place]).sum(), 1e-300)
        return bool(np.allclose(found, expected, tol[1], atol, equal_nan=True))

    for i, (out, start) in enumerate(zip(outputs, starts)):
        for turned in ((start, 1j * start) if out.dtype.is_complex else (start,)) if backward else ():
            made = [
                gradients(out, list(moved.values()), wrap(np.asarray(turned), out.dtype), check_dtypes)
                for _ in range(2)
            ]
            for place, a, b in zip(moved, *made):
                expected = (turned.conj() * numerical[place][i]).sum().real
                if not agree((a.conj() * steps[place]).sum().real, expected, i, place):
                    return _check(*given)
                _check_repeated(a, b, nondet_tol)
    if forward:
        for place, m in moved.items():
            tangent = m.spread(steps[place])
            for i, pair in enumerate(_pushed(func, inputs, {**_still(moved), place: wrap(tangent, m.tensor.dtype)})):
                ends = starts[i].conj().ravel()
                if not agree((ends * _column(*pair)).sum(), (ends * numerical[place][i].ravel()).sum(), i, place):
                    return _check(*given)
    return outputs, moved


def _positive(rng: Any, shape: tuple[int, ...], d: Any) -> Any:
    """A random direction of length one, without cancellation between elements."""
    values = rng.random(shape) + (1j * rng.random(shape) if d.is_complex else 0.0)
    return np.asarray(values / max(np.linalg.norm(values), 1e-300), d.numpy)


def _check_repeated(first: Any, second: Any, nondet_tol: float) -> None:
    if not np.allclose(first, second, 0, nondet_tol, equal_nan=True):
        raise GradcheckError(
            "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives different "
            "values, although analytical gradient matches numerical gradient. The tolerance for nondeterminism was "
            f"{nondet_tol}."
        )


def _check(
    func: Callable[..., Any], inputs: tuple[Any, ...], eps: float, tol: tuple[float, float], nondet_tol: float,
    check_dtypes: bool, forward: bool, backward: bool, masked: bool,
) -> tuple[list[Tensor], dict[int, Moved]]:  # fmt: skip
    """Compares the matrices of derivatives; gives the outputs and the inputs that were moved, by their places."""
    moved, shapes = _begin(func, inputs, masked)
    places, targets = list(moved), list(moved.values())
    numerical = [numerical_matrices(func, inputs, i, m, eps, shapes) for i, m in moved.items()]
    outputs = outputs_of(func(*inputs))  # what the first call kept was written to
    if backward and not any(t._k & GRAD for t in outputs):
        _check_zero(numerical, eps)
        return outputs, moved
    expectations = [
        [interleaved(per_output[i], out.dtype.is_complex) for per_output in numerical] for i, out in enumerate(outputs)
    ]
    for i, (out, expected) in enumerate(zip(outputs, expectations)):
        if backward:
            exact = analytical_matrices(out, targets, check_dtypes)
            again = analytical_matrices(out, targets, False)
            for place, a, b, e in zip(places, exact, again, expected):
                compare(a, e, i, place, tol, out.dtype.is_complex, inputs[place].dtype.is_complex, "")
                _check_repeated(a, b, nondet_tol)
    if forward:
        for place, *by_place in zip(places, *expectations):
            found = _by_forward_mode(func, inputs, moved, place)
            for i, (out, f, e) in enumerate(zip(outputs, found, by_place)):
                by_complex = inputs[place].dtype.is_complex
                compare(f, e, i, place, tol, out.dtype.is_complex, by_complex, "computed with forward mode ")
    return outputs, moved


def _pushed(func: Callable[..., Any], inputs: tuple[Any, ...], tangents: dict[int, Any]) -> list[Any]:
    """The outputs' tangents (None where there is none); the function gets inputs that record nothing."""
    from . import forward_ad

    with forward_ad.dual_level():
        args = list(inputs)
        for i, tangent in tangents.items():
            args[i] = detached(inputs[i])
            if tangent is not None:
                args[i] = forward_ad.make_dual(args[i], tangent)
        return [forward_ad.unpack_dual(out) for out in outputs_of(func(*args))]


def _still(targets: dict[int, Moved]) -> dict[int, Tensor]:
    return {i: wrap(np.zeros(m.values.shape, m.values.dtype), m.tensor.dtype) for i, m in targets.items()}


def _by_forward_mode(func: Callable[..., Any], inputs: tuple[Any, ...], targets: dict[int, Moved], place: int) -> Any:
    """The matrix of each output by one input, column by column, from tangents."""
    columns: list[list[Any]] = []
    for tangent in directions(targets[place].tensor):
        made = _pushed(func, inputs, {**_still(targets), place: tangent})
        columns.append([_column(*pair) for pair in made])
    return [interleaved(np.stack(each, -1), any(np.iscomplexobj(c) for c in each)) for each in zip(*columns)]


def _column(out: Tensor, tangent: Tensor | None) -> Any:
    return np.zeros(out._array.shape, out.dtype.numpy).ravel() if tangent is None else array_of(tangent).ravel()


def _some_tangents(t: Tensor, count: int) -> list[Tensor]:
    rng = np.random.default_rng(0)
    shape, d = t._array.shape, t.dtype.numpy
    turned = [1, 1j] if t.dtype.is_complex else [1]
    made = [sum(part * rng.standard_normal(shape) for part in turned) for _ in range(count)]
    return [wrap(np.asarray(values, d).reshape(shape), t.dtype) for values in made]


def _check_missing_tangents(func: Callable[..., Any], inputs: tuple[Any, ...], targets: dict[int, Moved]) -> None:
    """An input without a tangent counts as one whose tangent is zero."""
    still = _still(targets)
    if len(targets) == 1:
        pairs = [(pair, (pair[0], None)) for pair in _pushed(func, inputs, still)]
    else:
        pairs = []
        for place, m in targets.items():
            tangent = _some_tangents(m.tensor, 1)[0]
            alone: dict[int, Any] = {**dict.fromkeys(targets), place: tangent}
            pairs += zip(_pushed(func, inputs, {**still, place: tangent}), _pushed(func, inputs, alone))
    for given, missing in pairs:
        if not np.allclose(_column(*given), _column(*missing), equal_nan=True):
            raise GradcheckError(
                "Expected forward AD to give the same tangents for an input whose tangent is zero and one that has none"
            )


def _check_batched_forward(func: Callable[..., Any], inputs: tuple[Any, ...], targets: dict[int, Moved]) -> None:
    """Tangents of a batch by `vmap` are those one after the other."""
    from .._vmap_internals import vmap

    still = _still(targets)
    for place, m in targets.items():
        tangents = _some_tangents(m.tensor, 2)
        reached: list[int] = []

        def one(tangent: Tensor, place: int = place, reached: list[int] = reached) -> tuple[Any, ...]:
            found = [tangent for _, tangent in _pushed(func, inputs, {**still, place: tangent})]
            reached[:] = [i for i, t in enumerate(found) if t is not None]
            return tuple(found[i] for i in reached)

        expected = [one(tangent) for tangent in tangents]
        if not reached:
            continue
        try:
            found = vmap(one)(ops.stack(tangents))
        except RuntimeError as error:
            raise GradcheckError(
                "gradcheck or gradgradcheck failed while testing batched forward gradient computation (as check_batched_"
                f"forward_grad asks). {error}"
            ) from error
        for i, batch in enumerate(found):
            if not all(np.allclose(array_of(a), array_of(e[i])) for a, e in zip(ops.unbind(batch), expected)):
                raise GradcheckError(
                    "gradcheck or gradgradcheck failed while testing batched forward gradient computation: the tangents by "
                    "vmap differ from those one after the other"
                )


def _check_undefined(outputs: list[Tensor]) -> None:
    """A node that receives no gradient at all gives none, or zeros."""
    seen: set[int] = set()
    for out in outputs:
        if not out._k & GRAD or out._edge is None or id(out._edge[0]) in seen:
            continue
        node = out._edge[0]
        seen.add(id(node))
        try:
            found = engine.without_gradient(node)
        except RuntimeError as error:
            warnings.warn(_UNDEFINED, stacklevel=5)
            raise GradcheckError(
                "Expected backward function to handle undefined output grads: a gradient that comes as None counts as zero. "
                f"{error}"
            ) from error
        if any(g is not None and (elements_of(g) != 0).any() for g in found):
            warnings.warn(_UNDEFINED, stacklevel=5)
            raise GradcheckError(
                "Expected all input grads to be undefined or zero when all output grads are undefined or zero."
            )


_UNDEFINED = (
    "Backwards compatibility: New undefined gradient support checking feature is enabled by default; pass "
    "check_undefined_grad=False to leave it out"
)


def _check_multiplied(func: Callable[..., Any], inputs: tuple[Any, ...], targets: list[Moved], masked: bool) -> None:
    """A gradient that starts with zeros is zero, and has the layout, size and device of its input."""
    from . import grad

    outs = [t for t in outputs_of(func(*inputs)) if t._k & GRAD]
    if not outs:
        raise RuntimeError("no Tensors requiring grad found in outputs")
    found = grad(outs, [m.tensor for m in targets], [ops.zeros_like(detached(t)) for t in outs], allow_unused=True)
    for g, m in zip(found, targets):
        t = m.tensor
        if g is None:
            continue
        if g.layout is not t.layout and (g._k & SPARSE or masked):
            raise GradcheckError(f"grad is incorrect layout ({g.layout} is not {t.layout})")
        if g._k & t._k & SPARSE and g.is_sparse and g.sparse_dim() != t.sparse_dim():
            raise GradcheckError("grad is sparse tensor, but has incorrect sparse_dim")
        if (elements_of(g) != 0).any():
            raise GradcheckError("backward not multiplied by grad_output")
        if g.dtype is not t.dtype:
            raise GradcheckError("grad is incorrect type")
        if g._array.shape != t._array.shape:
            raise GradcheckError("grad is incorrect size")


def _check_batched(outputs: list[Tensor], targets: list[Moved]) -> None:
    """Gradients of a batch of starts by `vmap` are those one after the other."""
    from . import grad

    for out in outputs:
        if not out._k & GRAD:
            continue
        rng = np.random.default_rng(0)
        starts = [wrap(rng.standard_normal(out._array.shape).astype(out.dtype.numpy), out.dtype) for _ in range(2)]
        wanted = [m.tensor for m in targets]
        expected = [grad(out, wanted, s, retain_graph=True, allow_unused=True) for s in starts]
        kept = [meta_of(t).grad for t in wanted]
        try:
            found = grad(out, wanted, ops.stack(starts), retain_graph=True, allow_unused=True, is_grads_batched=True)
        except RuntimeError as error:
            raise GradcheckError(
                "gradcheck or gradgradcheck failed while testing batched gradient computation. This could have been invoked "
                f"in a number of ways (via a test that calls gradcheck/gradgradcheck directly). {error}"
            ) from error
        finally:
            for t, g in zip(wanted, kept):  # those that retain theirs have got a batch's
                meta_of(t).grad = g
        for g, pair in zip(found, zip(*expected)):
            if g is not None and not all(np.allclose(array_of(a), array_of(b)) for a, b in zip(ops.unbind(g), pair)):
                raise GradcheckError(
                    "gradcheck or gradgradcheck failed while testing batched gradient computation: the gradients by vmap "
                    "differ from those one after the other"
                )


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Whether the second derivatives of `func` agree with finite differences of its first ones.

    >>> import flambeau as torch
    >>> x = torch.tensor([0.3, 0.7], dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradgradcheck(torch.sin, (x,))
    True
    """
    from . import grad

    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    if grad_outputs is None:
        outputs = [t for t in outputs_of(func(*inputs)) if t._k & GRAD]
        rng = np.random.default_rng(0)
        cotangents = []
        for t in outputs:
            values = rng.standard_normal(t._array.shape)
            if t.dtype.is_complex:
                values = values + 1j * rng.standard_normal(t._array.shape)
            cotangents.append(ops.requires_grad_(wrap(np.asarray(values, t.dtype.numpy), t.dtype)))
    else:
        cotangents = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs)
    count = len(cotangents)

    def first_derivative(*args: Any) -> tuple[Any, ...]:
        values, given = args[:-count], args[-count:]
        values = tuple(
            ops.requires_grad_(v if v._k & DUAL else detached(v)) if isinstance(v, Tensor) and v.dtype.category >= 2
            and not v._k & GRAD and isinstance(i, Tensor) and i._k & GRAD else v
            for v, i in zip(values, inputs)
        )  # fmt: skip
        wanted = [v for v, i in zip(values, inputs) if isinstance(i, Tensor) and i._k & GRAD]
        outs = [t for t in outputs_of(func(*values)) if t._k & GRAD]
        found = grad(outs, wanted, given, create_graph=True, allow_unused=True)
        return tuple(ops.zeros_like(w) if g is None else g for g, w in zip(found, wanted))

    return gradcheck(
        first_derivative, (*inputs, *cotangents), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
        nondet_tol=nondet_tol, check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev, check_backward_ad=check_rev_over_rev, fast_mode=fast_mode, masked=masked,
    )  # fmt: skip


__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]
