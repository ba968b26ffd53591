"""Sums of products over named dimensions: einsum, tensordot, kron and chains of products, by matrix products."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from ..._core.config import deprecated
from ..._core.sizes import wrap_dim
from ..._tensor import Tensor
from ..plans.sites import planned_call
from ..registry import expose, functions, ops, public, relabel
from .matmul import plain_name

# -- the equation ------------------------------------------------------------------------------------------------


def _letters(text: str, where: str, offset: int) -> list[Any]:
    """The subscripts of one operand: letters, and `...` for the dimensions of an ellipsis."""
    found: list[Any] = []
    i = 0
    while i < len(text):
        c = text[i]
        if c == ".":
            if text[i : i + 3] != "...":
                raise RuntimeError(f"einsum(): found '.' for {where} that is not part of any ellipsis")
            if ... in found:
                raise RuntimeError(f"einsum(): found '.' for {where} for which an ellipsis was already found")
            found.append(...)
            i += 2
        elif c.isascii() and c.isalpha():
            found.append(c)
        elif c != " ":
            raise RuntimeError(
                f"einsum(): invalid subscript at index {offset + i} of the equation; subscripts are letters"
            )
        i += 1
    return found


def _parse(equation: str) -> tuple[list[list[Any]], list[Any] | None]:
    left, arrow, right = equation.partition("->")
    inputs, offset = [], 0
    for number, part in enumerate(left.split(",")):
        inputs.append(_letters(part, f"operand {number}", offset))
        offset += len(part) + 1
    return inputs, _letters(right, "the output", len(left) + 2) if arrow else None


def _letter(number: Any) -> str:
    if number is ...:
        return "..."
    if not isinstance(number, int) or not 0 <= number < 52:
        raise ValueError("einsum(): the numbers in a list of subscripts must be in [0, 52)")
    return chr(ord("A") + number) if number < 26 else chr(ord("a") + number - 26)


def _from_sublists(args: Sequence[Any]) -> tuple[str, list[Any]]:
    """The equation and operands of einsum(a, [0, 1], b, [1, 2], [0, 2])."""
    count = len(args) // 2
    inputs = ["".join(map(_letter, args[2 * i + 1])) for i in range(count)]
    output = "->" + "".join(map(_letter, args[-1])) if len(args) % 2 else ""
    return ",".join(inputs) + output, [args[2 * i] for i in range(count)]


def _expanded(inputs: list[list[Any]], shapes: Sequence[tuple[int, ...]]) -> tuple[list[list[Any]], int]:
    """Ellipses become numbered labels, counted from the last dimension they cover; also the most that one covers."""
    expanded, most = [], 0
    for number, (labels, shape) in enumerate(zip(inputs, shapes)):
        ndim, named = len(shape), len(labels) - (... in labels)
        if ... not in labels and named != ndim:
            raise RuntimeError(
                f"einsum(): the number of subscripts ({named}) does not match the number of dimensions ({ndim}) "
                f"of operand {number}; an ellipsis stands for the rest"
            )
        if named > ndim:
            raise RuntimeError(
                f"einsum(): the number of subscripts ({named}) is more than the number of dimensions ({ndim}) "
                f"of operand {number}"
            )
        if ... in labels:
            covered = ndim - named
            most = max(most, covered)
            at = labels.index(...)
            labels = [*labels[:at], *range(covered - 1, -1, -1), *labels[at + 1 :]]
        expanded.append(labels)
    return expanded, most


def _output_labels(inputs: list[list[Any]], output: list[Any] | None, most: int) -> list[Any]:
    dots = list(range(most - 1, -1, -1))
    if output is None:  # the ellipsis, then every letter that occurs once, in order
        flat = [label for labels in inputs for label in labels if isinstance(label, str)]
        return dots + sorted(label for label in set(flat) if flat.count(label) == 1)
    known = {label for labels in inputs for label in labels}
    for label in output:
        if output.count(label) > 1:
            raise RuntimeError(f"einsum(): output subscript {label} appears more than once in the output")
        if label is not ... and label not in known:
            raise RuntimeError(f"einsum(): output subscript {label} does not appear in any operand")
    if ... not in output:
        return output
    at = output.index(...)
    return [*output[:at], *dots, *output[at + 1 :]]


# -- contraction -------------------------------------------------------------------------------------------------


class _Recipe:
    """What is done with operands of given shapes: steps over values, of which the operands are the first. Each value is used once."""

    def __init__(self, shapes: Sequence[tuple[int, ...]]):
        self.shapes = list(shapes)
        self.steps: list[tuple[Any, int, int | None, Any]] = []
        self.ends_in_product = False

    def step(self, function: Any, shape: tuple[int, ...], value: int, other: int | None, given: Any = None) -> int:
        """The number of the value that a function makes of two others, or of one and what is given."""
        self.steps.append((function, value, other, given))
        self.shapes.append(shape)
        self.ends_in_product = False
        return len(self.shapes) - 1

    def reshape(self, value: int, shape: tuple[int, ...]) -> int:
        return value if shape == self.shapes[value] else self.step(ops.reshape, shape, value, None, shape)

    def permute(self, value: int, dims: tuple[int, ...]) -> int:
        if dims == tuple(range(len(dims))):
            return value
        shape = self.shapes[value]
        return self.step(ops.permute, tuple([shape[d] for d in dims]), value, None, dims)

    def product(self, a: int, b: int) -> int:
        """Of matrices, or of batches of them."""
        x, y = self.shapes[a], self.shapes[b]
        made = self.step(ops.mm if len(x) == 2 else ops.bmm, (*x[:-1], y[-1]), a, b)
        self.ends_in_product = True
        return made

    def run(self, operands: Sequence[Tensor]) -> Tensor:
        values: list[Any] = list(operands)
        for function, first, second, y in self.steps:
            x, values[first] = values[first], None  # which nobody needs any more
            if second is not None:
                y, values[second] = values[second], None
            values.append(function(x, y))
        if not self.steps:  # what is given out is a view in any case
            return ops.permute(values[-1], tuple(range(len(self.shapes[-1]))))
        return relabel(values[-1], "ViewBackward0") if self.ends_in_product else values[-1]


def _diagonal(t: Tensor, dims: tuple[int, int]) -> Tensor:
    """A diagonal, in the place of the first of its dimensions."""
    return ops.movedim(ops.diagonal(t, 0, *dims), -1, dims[0])


class _Term:
    """A value of a recipe whose dimensions have distinct labels."""

    __slots__ = ("labels", "recipe", "value")

    def __init__(self, recipe: _Recipe, value: int, labels: list[Any]):
        self.recipe, self.value, self.labels = recipe, value, labels

    @property
    def shape(self) -> tuple[int, ...]:
        return self.recipe.shapes[self.value]

    def sizes(self) -> dict[Any, int]:
        return dict(zip(self.labels, self.shape))

    def without(self, dropped: Iterable[Any]) -> _Term:
        """Sums labelled dimensions away."""
        dims = [self.labels.index(label) for label in dropped]
        if not dims:
            return self
        shape, value = self.shape, self.value
        keep = [d for d in range(len(shape)) if d not in dims]
        left = tuple([shape[d] for d in keep])
        long = tuple([d for d in dims if shape[d] != 1])
        if long:
            value = self.recipe.step(
                ops.sum, tuple([n for d, n in enumerate(shape) if d not in long]), value, None, long
            )
        return _Term(self.recipe, self.recipe.reshape(value, left), [self.labels[d] for d in keep])

    def among(self, order: Sequence[Any]) -> int:
        """Its dimensions in an order of labels, with an extent of 1 for those that it does not have."""
        value = self.arranged([k for k in order if k in self.labels])
        for i, k in enumerate(order):
            if k not in self.labels:
                shape = self.recipe.shapes[value]
                value = self.recipe.step(ops.unsqueeze, (*shape[:i], 1, *shape[i:]), value, None, i)
        return value

    def arranged(self, order: Sequence[Any]) -> int:
        return self.recipe.permute(self.value, tuple([self.labels.index(label) for label in order]))

    def diagonal(self, first: int, second: int) -> _Term:
        """The same with one dimension where two have the same label."""
        shape = self.shape
        left = (*shape[:second], *shape[second + 1 :])
        value = self.recipe.step(_diagonal, left, self.value, None, (first, second))
        return _Term(self.recipe, value, [*self.labels[:second], *self.labels[second + 1 :]])


def _term(term: _Term) -> _Term:
    """Repeated labels of one operand mean its diagonal."""
    for label in dict.fromkeys(term.labels):
        while term.labels.count(label) > 1:
            first = term.labels.index(label)
            second = term.labels.index(label, first + 1)
            n, m = term.shape[first], term.shape[second]
            if n != m:
                raise RuntimeError(
                    f"einsum(): subscript {label} is repeated for operand {term.value} with different sizes, {m} and {n}"
                )
            term = term.diagonal(first, second)
    return term


def _check_sizes(terms: Sequence[_Term]) -> None:
    seen: dict[Any, int] = {}
    for number, term in enumerate(terms):
        for label, n in term.sizes().items():
            if n != 1 and seen.get(label, 1) not in (1, n):
                name = label if isinstance(label, str) else "..."
                raise RuntimeError(
                    f"einsum(): subscript {name} has size {n} in operand {number}, which does not broadcast with "
                    f"{seen[label]} before it"
                )
            if n != 1 or label not in seen:
                seen[label] = n


def _contract(a: _Term, b: _Term, kept: set[Any], wanted: Sequence[Any]) -> _Term:
    """The product of two terms, summed over the labels outside `kept`; labels that are `wanted` lie in that order where they can."""
    recipe, places = a.recipe, {k: i for i, k in enumerate(wanted)}
    after = len(places)

    def in_order(labels: Iterable[Any]) -> list[Any]:
        return sorted(labels, key=lambda k: places.get(k, after))

    x, y = a.sizes(), b.sizes()
    if not any(k in y and k not in kept for k in x):  # elements are multiplied as they will lie
        a, b = (_Term(recipe, t.arranged(in_order(t.labels)), in_order(t.labels)) for t in (a, b))
    # a dimension of extent 1 is dropped: the other term may have the real one, and it does not decide how the product lies
    a = a.without([k for k in a.labels if (k not in kept and k not in y) or x[k] == 1])
    b = b.without([k for k in b.labels if (k not in kept and k not in x) or y[k] == 1])
    a = a.without([k for k in a.labels if k not in kept and k not in b.labels])
    b = b.without([k for k in b.labels if k not in kept and k not in a.labels])
    x, y = a.sizes(), b.sizes()
    shared = [k for k in a.labels if k in y]
    batch, summed = in_order([k for k in shared if k in kept]), [k for k in shared if k not in kept]
    left, right = in_order([k for k in a.labels if k not in y]), in_order([k for k in b.labels if k not in x])
    if not summed:
        labels = in_order([*batch, *left, *right])
        one, two = a.among(labels), b.among(labels)
        shape = tuple([max(n, m) if n and m else 0 for n, m in zip(recipe.shapes[one], recipe.shapes[two])])
        return _Term(recipe, recipe.step(ops.mul, shape, one, two), labels)
    if left and right and places.get(right[-1], after) < places.get(left[0], after):
        a, b, x, y, left, right = b, a, y, x, right, left

    def grouped(term: _Term, *groups: list[Any]) -> int:
        """Groups of dimensions, each as one."""
        sizes, groups = term.sizes(), groups if batch else groups[1:]
        value = term.arranged([k for group in groups for k in group])
        return recipe.reshape(value, tuple([math.prod([sizes[k] for k in group]) for group in groups]))

    made = recipe.product(grouped(a, batch, left, summed), grouped(b, batch, summed, right))
    shape = (*[x[k] for k in batch], *[x[k] for k in left], *[y[k] for k in right])
    return _Term(recipe, recipe.reshape(made, shape), [*batch, *left, *right])


def _cheapest(terms: list[_Term], kept: set[Any]) -> tuple[int, int]:
    """The pair whose contraction shrinks the operands most."""
    best, chosen = math.inf, (0, 1)
    for i in range(len(terms)):
        for j in range(i + 1, len(terms)):
            elsewhere = kept.union(*[t.labels for n, t in enumerate(terms) if n not in (i, j)])
            one, two = terms[i].sizes(), terms[j].sizes()
            result = math.prod([max(one.get(k, 1), two.get(k, 1)) for k in {**one, **two} if k in elsewhere])
            cost = result - math.prod(terms[i].shape) - math.prod(terms[j].shape)
            if cost < best:
                best, chosen = cost, (i, j)
    return chosen


@functools.lru_cache(1024)
def _recipe(equation: str, shapes: tuple[tuple[int, ...], ...]) -> _Recipe:
    inputs, output = _parse(equation)
    if len(inputs) != len(shapes):
        relation = "fewer" if len(shapes) < len(inputs) else "more"
        raise RuntimeError(f"einsum(): {relation} operands were provided than specified in the equation")
    labels, most = _expanded(inputs, shapes)
    wanted = _output_labels(labels, output, most)
    recipe = _Recipe(shapes)
    terms = [_term(_Term(recipe, number, names)) for number, names in enumerate(labels)]
    _check_sizes(terms)
    kept = set(wanted)
    while len(terms) > 1:
        i, j = _cheapest(terms, kept) if len(terms) > 2 else (0, 1)
        second, first = terms.pop(j), terms.pop(i)
        terms.append(_contract(first, second, kept.union(*[t.labels for t in terms]), wanted))
    last = terms[0].without([k for k in terms[0].labels if k not in kept])
    last.among(wanted)  # an ellipsis may cover nothing here
    return recipe


_computed = planned_call(
    lambda equation, operands: _recipe(equation, tuple([t._array.shape for t in operands])).run(operands),
    ["equation", "operands"],
)


def _with_operands_in_a_row(general: Any) -> Any:
    """Operands in one list are taken out of it first, so that classes that override see them where they expect them."""

    @functools.wraps(general)
    def call(*args: Any) -> Any:
        if len(args) == 2 and args[1].__class__ in (list, tuple) and args[0].__class__ is str:
            return general(args[0], *args[1])
        return general(*args)

    general.public = functions["einsum"] = call
    expose("einsum", call, None, None)
    return call


@_with_operands_in_a_row
@public(method=False)
def einsum(*args: Any) -> Tensor:
    """Sums of products of operands whose dimensions are named by letters, or by numbers in lists.

    >>> import flambeau as torch
    >>> torch.einsum("ij,jk->ik", torch.eye(2), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[1., 2.],
            [3., 4.]])
    """
    if len(args) < 2:
        raise ValueError(
            "einsum(): expected an equation and operands, or operands each followed by a list of subscripts"
        )
    equation: Any = args[0]
    operands: Any = args[1:]
    if not isinstance(equation, str):
        equation, operands = _from_sublists(args)
    elif len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = operands[0]
    for number, t in enumerate(operands):
        if not isinstance(t, Tensor):
            raise TypeError(f"expected Tensor as element {number} in argument 1, but got {type(t).__name__}")
    return _computed(sys.intern(str(equation)), list(operands))  # plans know a text by its address


# -- relatives ---------------------------------------------------------------------------------------------------


def _contracted_dims(a: Tensor, b: Tensor, dims: Any) -> tuple[list[int], list[int]]:
    n, m = a._array.ndim, b._array.ndim
    if isinstance(dims, Tensor):
        dims = dims.tolist() if dims._array.ndim else int(dims._array)
    if isinstance(dims, (tuple, list)):
        if len(dims) != 2:
            raise RuntimeError("tensordot: dims must be an int or two lists of ints")
        first, second = dims
        for position, part in enumerate((first, second)):
            if isinstance(part, int):
                side = "self" if position == 0 else "other"
                raise TypeError(f"tensordot(): argument 'dims_{side}' must be tuple of ints, not int")
        return [wrap_dim(d, n) for d in first], [wrap_dim(d, m) for d in second]
    if dims < 0:
        raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
    if dims > min(n, m):
        raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
    return list(range(n - dims, n)), list(range(dims))


@public(method=False, out="exact")
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Sums of products over the last `dims` dimensions of `a` and the first of `b`, or over the given ones.

    >>> import flambeau as torch
    >>> torch.tensordot(torch.ones(2, 3, 4), torch.ones(3, 4, 5)).shape
    torch.Size([2, 5])
    """
    first, second = _contracted_dims(a, b, dims)
    if len(first) != len(second):
        raise RuntimeError("both dimension lists should have same length")
    if a.dtype is not b.dtype:
        raise RuntimeError("both inputs should have same dtype")
    for i, j in zip(first, second):
        n, m = a._array.shape[i], b._array.shape[j]
        if n != m:
            if m == 1:
                a = ops.sum(a, (i,), True, dtype=a.dtype)
            elif n == 1:
                b = ops.sum(b, (j,), True, dtype=b.dtype)
            else:
                raise RuntimeError(
                    f"contracted dimensions need to match, got {n} in dim {i} of the first and {m} in dim {j} of the second"
                )
    x, y = a._array.shape, b._array.shape
    left, right = [i for i in range(len(x)) if i not in first], [j for j in range(len(y)) if j not in second]
    k = math.prod(x[i] for i in first)
    shape = (*[x[i] for i in left], *[y[j] for j in right])
    rows = ops.reshape(ops.permute(a, (*left, *first)), (math.prod(x[i] for i in left), k))
    columns = ops.reshape(ops.permute(b, (*second, *right)), (k, math.prod(y[j] for j in right)))
    return ops.reshape(ops.mm(rows, columns), shape)


@public(out=True, planned=True)
def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product: a block of `other` for every element of `input`.

    >>> import flambeau as torch
    >>> torch.kron(torch.eye(2), torch.ones(1, 2))
    tensor([[1., 1., 0., 0.],
            [0., 0., 1., 1.]])
    """
    ndim = max(input._array.ndim, other._array.ndim)
    x = (1,) * (ndim - input._array.ndim) + input._array.shape
    y = (1,) * (ndim - other._array.ndim) + other._array.shape
    left = ops.reshape(input, [n for i in range(ndim) for n in (x[i], 1)])
    right = ops.reshape(other, [n for i in range(ndim) for n in (1, y[i])])
    return relabel(ops.reshape(ops.mul(left, right), tuple(n * m for n, m in zip(x, y))), "UnsafeViewBackward0")


def _best_split(sizes: Sequence[int]) -> list[list[int]]:
    """For every run of a chain of matrices, where to split it for the fewest multiplications."""
    n = len(sizes) - 1
    cost = [[0] * n for _ in range(n)]
    split = [[0] * n for _ in range(n)]
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length - 1
            ways = [(cost[i][s] + cost[s + 1][j] + sizes[i] * sizes[s + 1] * sizes[j + 1], s) for s in range(i, j)]
            cost[i][j], split[i][j] = min(ways)
    return split


def _check_chain(tensors: Sequence[Tensor]) -> None:
    last = len(tensors) - 1
    for i, t in enumerate(tensors):
        ndim = t._array.ndim
        if i in (0, last):
            if ndim not in (1, 2):
                raise RuntimeError(
                    f"multi_dot(): the {'last' if i else 'first'} tensor must be 1D or 2D but got {ndim}D"
                )
        elif ndim != 2:
            raise RuntimeError(f"multi_dot(): tensor {i} must be 2D but got {ndim}D")
    for i, (a, b) in enumerate(pairwise(tensors)):
        if b.dtype is not tensors[0].dtype:
            raise RuntimeError(
                f"multi_dot(): all tensors must have the same dtype, got {plain_name(tensors[0].dtype)} for tensor 0 "
                f"and {plain_name(b.dtype)} for tensor {i + 1}"
            )
        if a._array.shape[-1] != b._array.shape[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {i} and {i + 1} with shapes {list(a._array.shape)} and {list(b._array.shape)} "
                "cannot be multiplied"
            )


@public("linalg.multi_dot", method=False, out="exact", planned=True)
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of a chain of matrices, in the order that takes the fewest multiplications.

    >>> import flambeau as torch
    >>> torch.linalg.multi_dot([torch.ones(2, 3), torch.ones(3, 4), torch.ones(4)])
    tensor([12., 12.])
    """
    if not isinstance(tensors, (tuple, list)):
        raise TypeError(
            "linalg_multi_dot(): argument 'tensors' (position 1) must be tuple of Tensors, not "
            + type(tensors).__name__
        )
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    for t in tensors:
        if not isinstance(t, Tensor):
            raise TypeError(
                f"linalg_multi_dot(): argument 'tensors' (position 1) must be tuple of Tensors, not of {type(t).__name__}"
            )
    _check_chain(tensors)
    if len(tensors) == 2:
        return ops.matmul(tensors[0], tensors[1])
    chain = list(tensors)
    starts, ends = chain[0]._array.ndim == 1, chain[-1]._array.ndim == 1
    chain[0] = ops.unsqueeze(chain[0], 0) if starts else chain[0]
    chain[-1] = ops.unsqueeze(chain[-1], 1) if ends else chain[-1]
    split = _best_split([t._array.shape[0] for t in chain] + [chain[-1]._array.shape[1]])

    def multiply(i: int, j: int) -> Tensor:
        if i == j:
            return chain[i]
        s = split[i][j]
        return ops.mm(multiply(i, s), multiply(s + 1, j))

    made = multiply(0, len(chain) - 1)
    made = ops.squeeze(made, -1) if ends else made
    return ops.squeeze(made, 0) if starts else made


@public(method=False)
def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """The product of matrices, in the order that takes the fewest multiplications (see `linalg.multi_dot`).

    >>> import flambeau as torch
    >>> torch.chain_matmul(torch.ones(2, 3), torch.ones(3, 1))
    tensor([[3.],
            [3.]])
    """
    deprecated("chain_matmul", "torch.linalg.multi_dot", once=False)
    for t in matrices:
        if isinstance(t, Tensor) and t._array.ndim != 2:
            raise RuntimeError(f"Tensor dimension is {t._array.ndim}, expected 2 instead.")
    if not matrices:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    if len(matrices) == 1:
        return ops.clone(matrices[0])
    return ops.multi_dot(list(matrices), out=out)


SCHEMAS = """
einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor  # python
tensordot  # python, autocast=cuda:widest
kron(Tensor self, Tensor other) -> Tensor
linalg_multi_dot(Tensor[] tensors) -> Tensor  # autocast=cuda:lower
chain_matmul(Tensor[] matrices) -> Tensor  # python, autocast=cuda:lower, composite
"""
