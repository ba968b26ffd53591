"""What `gradcheck` compares: derivatives by central differences, and those by backward passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .._core.state import DISPATCH, SPARSE
from .._ops.registry import ops
from .._tensor import Tensor, detached, wrap


class GradcheckError(RuntimeError):
    """What `gradcheck` raises when a derivative is wrong."""

    __module__ = __name__.replace("_differences", "gradcheck")  # its public home


def outputs_of(result: Any) -> list[Tensor]:
    parts = result if isinstance(result, (tuple, list)) else (result,)
    return [t for t in parts if isinstance(t, Tensor) and t.dtype.category >= 2]


def array_of(t: Tensor) -> Any:
    """The elements of a dense tensor, copied; a class that dispatches is asked for each."""
    if t._k & DISPATCH:
        flat = ops.detach(t).flatten()
        numbers = [flat[i].item() for i in range(t._array.size)]
        return np.array(numbers, t.dtype.numpy).reshape(t._array.shape)
    return np.array(ops.resolve_neg(ops.resolve_conj(detached(t)))._array)


def elements_of(t: Tensor) -> Any:
    return array_of(ops.to_dense(detached(t)) if t._k & SPARSE else t)


# -- inputs as numbers to move -------------------------------------------------------------------------------------


class Moved:
    """An input whose elements are moved one after the other; of a sparse one those it has, or with zeros all."""

    def __init__(self, t: Tensor, masked: bool):
        self.tensor, self.masked = t, masked
        self.values = elements_of(t)
        self.places = list(np.ndindex(self.values.shape))
        if t._k & SPARSE and masked:
            there = elements_of(_with_values(t, ops.ones_like(_values(t)))) != 0
            self.places = [place for place in self.places if there[place]]

    def at(self, place: Any, step: Any) -> Tensor:
        """The input with one element moved: the very tensor, as a function may know it without taking it from its
        arguments (the parameters of a module); a sparse one is made anew."""
        if not self.tensor._k & SPARSE:
            self.tensor.data[place] = self.values[place] + step
            return self.tensor
        moved = self.values.copy()
        moved[place] += step
        return ops.requires_grad_(_like(wrap(moved, self.tensor.dtype), self.tensor, self.masked))

    def along(self, direction: Any, step: float) -> Tensor:
        """The input with all elements moved at once: `direction` has a number for each place."""
        moved = np.asarray(self.values + step * self.spread(direction))
        if self.tensor._k & SPARSE:
            return ops.requires_grad_(_like(wrap(moved, self.tensor.dtype), self.tensor, self.masked))
        ops.copy_(self.tensor.data, wrap(moved, self.tensor.dtype))
        return self.tensor

    def spread(self, direction: Any) -> Any:
        """An array like the input with the numbers of `direction` at the places, zeros elsewhere."""
        if len(self.places) == self.values.size:
            return direction.reshape(self.values.shape)
        whole = np.zeros(self.values.shape, self.values.dtype)
        whole[tuple(np.array(self.places, np.intp).reshape(len(self.places), whole.ndim).T)] = direction
        return whole

    def read(self, g: Tensor | None) -> Any:
        """The elements of a gradient by this input, in the order in which they are moved."""
        if g is None:
            return np.zeros(len(self.places), self.values.dtype)
        array = elements_of(g)
        if len(self.places) == array.size:
            return array.ravel()
        return np.array([array[place] for place in self.places], array.dtype)


def _values(t: Tensor) -> Tensor:
    t = detached(t)
    return t._values() if t.is_sparse else t.values()


def _with_values(t: Tensor, values: Tensor) -> Tensor:
    """A sparse tensor with the pattern of another."""
    t = detached(t)
    if t.is_sparse:
        return ops.sparse_coo_tensor(t._indices(), values, t.shape)
    by_rows = "csr" in str(t.layout) or "bsr" in str(t.layout)
    where = (ops.crow_indices(t), ops.col_indices(t)) if by_rows else (ops.ccol_indices(t), ops.row_indices(t))
    return ops.sparse_compressed_tensor(*where, values, t.shape, layout=t.layout)


def _like(dense: Tensor, t: Tensor, masked: bool) -> Tensor:
    """A dense tensor in the layout of a sparse one: with its pattern, or with every element named."""
    pattern = _with_values(t, ops.ones_like(_values(t)))
    if masked:
        return ops.mul(ops.sparse_mask(dense, pattern), 1)
    values = _values(t)
    dims = values._array.ndim - 1
    if t.is_sparse:
        return ops.to_sparse(_nowhere_zero(dense), t._array.ndim - dims)
    options = {"layout": t.layout, "dense_dim": t.dense_dim()}
    if "bs" in str(t.layout):
        options["blocksize"] = tuple(values._array.shape[-2 - options["dense_dim"] :][:2])
    return ops.to_sparse(_nowhere_zero(dense), **options)


def _nowhere_zero(dense: Tensor) -> Tensor:
    """Zeros as the least number, so that conversion to a sparse layout keeps them."""
    array = dense._array.copy()
    array[array == 0] = 1e-300
    return wrap(array, dense.dtype)


# -- the matrices of derivatives -----------------------------------------------------------------------------------


def difference(
    fn: Callable[..., Any], inputs: Sequence[Any], position: int, move: Callable[[int], Tensor], shapes: Any
) -> list[Any]:
    """How the outputs differ between the two sides to which an input is moved; it is put back then."""
    sides = []
    for sign in (1, -1):
        moved_input = move(sign)
        args = [moved_input if i == position else a for i, a in enumerate(inputs)]
        outs = outputs_of(fn(*args))
        for out, (shape, d) in zip(outs, shapes):
            for what, found, expected in (("shape", tuple(out._array.shape), shape), ("dtype", out.dtype, d)):
                if found != expected:
                    raise AssertionError(
                        f"Expected `func` to return outputs with the same {what} when inputs are perturbed by eps, but got "
                        f"{found} and {expected}"
                    )
        sides.append([elements_of(t) for t in outs])
    move(0)
    return [plus - minus for plus, minus in zip(*sides)]


def numerical_matrices(
    fn: Callable[..., Any], inputs: Sequence[Any], position: int, moved: Moved, eps: float, shapes: Any
) -> Any:
    """For each output a matrix of derivatives by central differences; complex inputs have two columns an element."""
    steps = (eps, eps * 1j) if moved.tensor.dtype.is_complex else (eps,)
    columns: list[list[Any]] = [[] for _ in shapes]
    for place in moved.places:
        for step in steps:
            made = difference(fn, inputs, position, lambda sign: moved.at(place, sign * step), shapes)
            for column, change in zip(columns, made):
                column.append((change / (2 * eps)).ravel())
    rows = [int(np.prod(shape)) for shape, _ in shapes]
    return [np.stack(c, -1) if c else np.zeros((n, 0)) for c, n in zip(columns, rows)]


def directions(out: Tensor) -> Iterator[Any]:
    """The gradients to start from: one for each element, and for a complex one a second for its imaginary part."""
    for index in np.ndindex(tuple(out._array.shape)):
        for direction in (1, 1j) if out.dtype.is_complex else (1,):
            start = np.zeros(out._array.shape, out.dtype.numpy)
            start[index] = direction
            yield wrap(start, out.dtype)


def gradients(out: Tensor, targets: list[Moved], start: Tensor, check_dtypes: bool) -> list[Any]:
    """The elements of the gradients by the inputs, which must have their dtypes and sizes."""
    from . import grad

    found = grad(out, [m.tensor for m in targets], start, retain_graph=True, allow_unused=True)
    for g, m in zip(found, targets):
        if g is not None and check_dtypes and g.dtype is not m.tensor.dtype:
            raise GradcheckError(f"Gradient has dtype {g.dtype}, which is not that of its input, {m.tensor.dtype}")
        if g is not None and g._array.shape != m.tensor._array.shape:
            raise GradcheckError("Analytical gradient has incorrect size")
    return [m.read(g) for g, m in zip(found, targets)]


def analytical_matrices(out: Tensor, targets: list[Moved], check_dtypes: bool) -> list[Any]:
    """For each input a matrix from backward passes, with two columns for each complex element of it."""
    rows: list[list[Any]] = [[] for _ in targets]
    for start in directions(out):
        for row, values in zip(rows, gradients(out, targets, start, check_dtypes)):
            row.append(values)
    made = []
    for row, m in zip(rows, targets):
        matrix = np.array(row).reshape(len(row), len(m.places))
        if m.tensor.dtype.is_complex:
            matrix = np.stack([matrix.real, matrix.imag], -1).reshape(len(row), 2 * len(m.places))
        made.append(matrix)
    return made


def interleaved(matrix: Any, is_complex: bool) -> Any:
    """Rows for the real and the imaginary parts of a complex output, in turn."""
    if not is_complex:
        return matrix.real
    return np.stack([matrix.real, matrix.imag], 1).reshape(2 * len(matrix), matrix.shape[-1])


def compare(
    found: Any, expected: Any, i: int, j: int, tol: tuple[float, float], is_complex: bool, by_complex: bool, how: str
) -> None:
    atol, rtol = tol
    if by_complex:  # the two columns of an element are one number
        found, expected = (m[:, ::2] + 1j * m[:, 1::2] for m in (found, expected))
    for part, name in (
        ((slice(1, None, 2), "imaginary"), (slice(0, None, 2), "real")) if is_complex else ((slice(None), ""),)
    ):
        a, b = found[part], expected[part]
        if not np.allclose(a, b, rtol, atol, equal_nan=True):
            only = f"While considering the {name} part of complex outputs only, " if name else ""
            raise GradcheckError(
                f"{only}Jacobian {how}mismatch for output {i} with respect to input {j},\nnumerical:{b}\nanalytical:{a}\n"
            )
