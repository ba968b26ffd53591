"""Products of CPU arrays: which routine computes them, and how the work is split over the cores."""

from __future__ import annotations

import functools
import threading
from typing import Any

import numpy as np

from .._core import allocation
from .._core.allocation import allocator, empty
from .._core.dtypes import bfloat16
from .._kernel.folds.sums import dot_rows
from .._kernel.loops.ufunc import loops
from .._kernel.native.direct import direct
from .._kernel.products import gemm, gemm_bf16, thin
from .._kernel.products.parts import put_together, take_apart
from .._kernel.render import tiles
from .._kernel.threads.pool import EACH
from . import threads
from .copies import rows_of
from .cpu import cpu
from .threads import PRODUCTS, worth

FETCH = 3  # multiplications that take as long as to fetch an element of the right operand
SOON = 1 << 22  # work up to which a product may hold up other Python threads
_CODES = {
    np.dtype(t): code
    for t, code in (
        ("f4", "f32"), ("f8", "f64"), ("f2", "f16"), (bfloat16.numpy, "bf16"), ("i8", "i64"), ("i4", "i32"),
        ("i2", "i16"), ("i1", "i8"), ("u1", "u8"),
    )
}  # fmt: skip
_PLAIN = frozenset(("f32", "f64", "i64", "i32"))  # computed in their own type
_ONE = {code: np.ones((), d) for d, code in _CODES.items() if code in _PLAIN}  # a ready array is passed on faster
_empty = empty
_single, _bits = np.dtype(np.float32), np.dtype(np.uint16)
_SHORT = 1 << 14  # vectors whose product is our own
_CELL = 128  # rows and columns of a part of a product that are worth packing both operands for
_MANY = 64  # rows that a tiny matrix is multiplied with in a way of its own
# Multiplications of complex numbers from which real and imaginary parts are taken apart; of each product in a batch, too: OpenBLAS is as fast
# as long as it takes one thread, but where it takes several these wait for each other all the time if the cores have other work.
_PARTS, _PARTS_IN_BATCHES = 1 << 12, 1 << 18
_THIN_WORK = 2  # what an element of the result costs there in moved ones
_VECTORS_BY_BLAS = frozenset((np.dtype(np.float32), np.dtype(np.float64)))


class Scratch(threading.local):
    """Memory for packed panels, one piece for each thread, so that its pages stay warm."""

    memory = np.empty(0, np.uint8)

    def take(self, size: int) -> Any:
        """At least `size` bytes; whoever takes next gets the same."""
        if allocation.watcher is not None and allocation.watcher.here():
            return allocation.watcher.scratch(size)
        memory = self.memory
        if memory.size < size:
            memory = self.memory = allocator[0](size, np.uint8)  # it is kept: never the memory of an `out=`
        return memory


workspace = Scratch()


@functools.lru_cache(4096)
def _kernel(code: str, m: int, n: int, added: bool) -> tuple[Any, int]:
    """(callable, bytes of scratch) of an (m, n) product; the result is given to it as the last argument."""
    return _direct_kernel(code, *_tile(code, m, n), added, m <= tiles.FEW)


@functools.cache
def _direct_kernel(code: str, rows: int, wide: int, added: bool, few: bool) -> tuple[Any, int]:
    ufunc, size = gemm.gemm(code, rows, added, wide=wide, few=few)
    return direct(ufunc), size


def _tile(code: str, m: int, n: int) -> tuple[int, int]:
    """Rows and width (in vectors) of the tiles of a product."""
    wide = tiles.width(m, n, code)
    return tiles.height(max(m, 1), wide, code), wide


@functools.cache
def _dot(code: str) -> Any:
    return direct(dot_rows((code, code, code)))


def product(x: Any, y: Any) -> Any:
    """x @ y for arrays of one dtype, with NumPy's rules for ranks and broadcasting."""
    d = x.dtype
    code = _CODES.get(d)
    if code is None:
        return _complex_product(x, y)
    if x.ndim == 2 == y.ndim:
        m, k = x.shape
        n = y.shape[1]
        if n <= thin.MOST and k <= thin.MOST and m >= _MANY and code in _PLAIN:
            return _thin(code, x, y)
        if code in _PLAIN and (n > 1 or m == 1) and worth((m + FETCH) * n * k // PRODUCTS) < 2:
            function, size = _kernel(code, m, n, False)
            out = _empty((m, n), d)
            function(x, y, workspace.take(size), out)
            return out
    elif x.ndim == y.ndim > 2 and code in _PLAIN and x.shape[:-2] == y.shape[:-2]:
        if y.shape[-1] <= thin.MOST and x.shape[-1] <= thin.MOST and x.shape[-2] >= _MANY:
            return _thin(code, x, y)
        return _batches(code, x, y, None, 1, 1)
    if x.ndim == 1 == y.ndim and d in _VECTORS_BY_BLAS:
        if x.size <= _SHORT and x.flags.forc and y.flags.forc:
            made = _empty((), d)
            _dot(code)(x, y, made)
            return made
        with np.errstate(all="ignore"):
            return np.asarray(np.matmul(x, y))
    return _with_vectors(code, x, y, None, 1, 1)


def _complex_product(x: Any, y: Any) -> Any:
    """The same for complex elements: one product of real matrices, each of which has twice the rows and columns, with our threads."""
    least = _PARTS if x.ndim == 2 == y.ndim else _PARTS_IN_BATCHES
    if min(x.ndim, y.ndim) < 2 or min(x.shape[-2], y.shape[-1]) == 1 or x.shape[-2] * x.shape[-1] * y.shape[-1] < least:
        with np.errstate(all="ignore"):
            return np.asarray(np.matmul(x, y))
    made = product(_in_parts(x), _in_parts(y.swapaxes(-1, -2)).swapaxes(-1, -2))
    out = empty((*made.shape[:-2], x.shape[-2], y.shape[-1]), x.dtype)
    code = _CODES[made.dtype]
    pairs = made.reshape(*out.shape[:-1], 2, made.shape[-1])
    cpu.sized(2 * out.size, put_together, (code, code))(pairs, out.view(made.dtype))
    return out


def _in_parts(x: Any) -> Any:
    """Matrices of twice the rows: the real part of each and its imaginary part. They lie so already in those that lie column by column."""
    real = np.dtype(f"f{x.itemsize // 2}")
    if x.strides[-1] != x.itemsize == x.strides[-2]:
        return x.swapaxes(-1, -2).view(real).swapaxes(-1, -2)
    if x.strides[-1] != x.itemsize:
        x = rows_of(x)
    out = empty((*x.shape[:-1], 2, x.shape[-1]), real)
    code = _CODES[real]
    cpu.sized(out.size, take_apart, (code, code))(x.view(real), out)
    return out.reshape(*x.shape[:-2], 2 * x.shape[-2], x.shape[-1])


def _thin(code: str, x: Any, y: Any) -> Any:
    """The products of matrices of many rows with tiny ones, which may be empty."""
    k, n, size = x.shape[-1], y.shape[-1], x.itemsize
    out = empty((*x.shape[:-1], n), x.dtype)
    if not k:
        out.fill(0)
    elif n:
        dense = x.strides[-2:] == (k * size, size)
        work = out.size * _THIN_WORK
        call = cpu.sized(work, thin.thin_product, (code,) * 3, inner=k, outer=n, dense=dense)
        parts = threads.ranges(len(x), _MANY, work) if x.ndim == 2 else ()
        cut = len(parts) > 1
        cpu.side_by_side(call, [[x[a:b], y, out[a:b]] for a, b in parts] if cut else [[x, y, out]])
    return out


def _batches(code: str, x: Any, y: Any, c: Any, beta: Any, alpha: Any) -> Any:
    """The products of two equally long batches of matrices that are computed in their own type."""
    m, k, n = *x.shape[-2:], y.shape[-1]
    shape = (*x.shape[:-1], n)
    out = empty(shape, x.dtype)
    operands = [x, y, out]
    if c is not None:
        operands.append(c if c.shape == shape else np.broadcast_to(c, shape))
    if x.ndim > 3:
        operands = _one_batch(operands)
    if n == 1 < m:  # a column is a row of the turned product, which packs nothing
        turned = [a.swapaxes(-1, -2) for a in operands]
        operands, m, n = [turned[1], turned[0], *turned[2:]], 1, m
    a, b, to, *added = operands
    # parts of a batch are cut from one dimension
    items = len(to) if to.ndim == 3 else -(out.size // max(1, m * n))
    function, size = _planned(
        code, None, items, m, k, n, c is not None, threads.get_num_threads(), to.shape[-3] if to.size else 1
    )
    if c is None:
        function(a, b, workspace.take(size), to)
    else:
        factors = [_ONE[code] if factor == 1 else np.asarray(factor, x.dtype) for factor in (alpha, beta)]
        function(a, b, added[0], *factors, workspace.take(size), to)
    return out


def _one_batch(arrays: list[Any]) -> list[Any]:
    """Batches of matrices with one dimension before theirs instead of several, if that takes no copy."""
    made = []
    for a in arrays:
        for d in range(a.ndim - 3):
            if not a.size or a.strides[d] != a.shape[d + 1] * a.strides[d + 1]:
                return arrays
        made.append(a.reshape(-1, *a.shape[-2:]))
    return made


def add_product(c: Any, x: Any, y: Any, beta: Any, alpha: Any) -> Any:
    """beta * c + alpha * (x @ y), where `c` broadcasts to the product; a beta of 0 leaves `c` unread."""
    d = x.dtype
    code = _CODES.get(d)
    if code is not None:
        m, n = x.shape[0], y.shape[-1]
        if x.ndim == 2 == y.ndim and code in _PLAIN and worth((m + FETCH) * y.size // PRODUCTS) < 2:
            function, size = _kernel(code, m, n, True)
            one = _ONE[code]
            factors = one if alpha == 1 else alpha, one if beta == 1 else beta
            out = _empty((m, n), d)
            function(x, y, _expanded(c, m, n), *factors, workspace.take(size), out)
            return out
        if x.ndim == y.ndim > 2 and code in _PLAIN and x.shape[:-2] == y.shape[:-2]:
            return _batches(code, x, y, c, beta, alpha)
        return _with_vectors(code, x, y, c, beta, alpha)
    with np.errstate(all="ignore"):
        made = product(x if alpha == 1 else x * d.type(alpha), y)
        if beta != 0:
            made += c if beta == 1 else c * d.type(beta)
        return made


def _expanded(c: Any, m: int, n: int) -> Any:
    """`c` as an (m, n) array; for a row this way is much shorter than NumPy's `broadcast_to`."""
    if c.ndim == 1 and m == 1 and c.shape[0] == n:
        return c[None]
    if c.ndim == 1 and c.flags.c_contiguous and c.shape[0] == n:
        return np.ndarray((m, n), c.dtype, c, 0, (0, c.itemsize))
    return c if c.shape == (m, n) else np.broadcast_to(c, (m, n))


def _with_vectors(code: str, x: Any, y: Any, c: Any, beta: Any, alpha: Any) -> Any:
    """Vectors count as a row on the left and as a column on the right."""
    left, right = x.ndim == 1, y.ndim == 1
    if c is not None and right:
        c = c[..., None]
    if left:
        x = x[None]
    if right:
        y = y[:, None]
    if y.shape[-1] == 1 < x.shape[-2]:  # a column is a row of the turned product, which packs nothing
        added = c.swapaxes(-1, -2) if c is not None and c.ndim > 1 else c
        made = _multiply(code, y.swapaxes(-1, -2), x.swapaxes(-1, -2), added, beta, alpha)
        made = made.reshape(*made.shape[:-2], made.shape[-1], 1)
    else:
        made = _multiply(code, x, y, c, beta, alpha)
    if left and right:
        return made.reshape(made.shape[:-2])
    return made[..., 0] if right else made[..., 0, :] if left else made


def _multiply(code: str, x: Any, y: Any, c: Any, beta: Any, alpha: Any) -> Any:
    d, k = x.dtype, x.shape[-1]
    pairs = gemm_bf16.instructions() if code == "bf16" and k <= gemm_bf16.DEPTH else None
    if x.ndim == 2 == y.ndim:
        if pairs:
            return _product_of_pairs(pairs, x, y, c, beta, alpha)
        if code in _PLAIN:
            return _product_of_matrices(code, x, y, c, beta, alpha)
    shape = (*np.broadcast_shapes(x.shape[:-2], y.shape[:-2]), x.shape[-2], y.shape[-1])
    half = code in ("bf16", "f16")
    out = empty(shape, d if pairs or not half else _single)
    operands: list[Any] = [x, y, out]
    if c is not None:
        operands.append(np.broadcast_to(c if pairs or not half else c.astype(_single), shape))
    if code == "bf16":
        operands = [a.view(_bits) if a.dtype == d else a for a in operands]
    factors = None
    if c is not None:
        compute = _single if half else np.dtype(np.int32) if code in ("i16", "i8", "u8") else d
        factors = (np.asarray(alpha, compute), np.asarray(beta, compute))
    items = out.size // max(1, shape[-2] * shape[-1])
    if len(shape) != 3:  # parts of a batch are cut from one dimension
        items = -items if len(shape) > 3 else 1
    inner = shape[-3] if len(shape) > 3 else items
    function, size = _planned(
        code, pairs, items, shape[-2], k, shape[-1], c is not None, threads.get_num_threads(), inner
    )
    a, b, to, *rest = operands
    scratch = workspace.take(size)
    function(*((a, b, scratch, to) if factors is None else (a, b, rest[0], *factors, scratch, to)))
    if half and not pairs:
        with np.errstate(over="ignore"):
            return out.astype(d)
    return out


def _product_of_matrices(code: str, x: Any, y: Any, c: Any, beta: Any, alpha: Any) -> Any:
    """The product of two matrices that is computed in their own type."""
    (m, k), n, size = x.shape, y.shape[1], x.itemsize
    along = x.strides[1] == size == y.strides[0]  # both lie depth by depth, as the input and the weight of a layer do
    turned = along and _better_turned(code, m, n)
    sizes = (n, k, m) if turned else (m, k, n)
    out = empty((m, n), x.dtype)
    a, b, to = (y.T, x.T, out.T) if turned else (x, y, out)
    across = a.strides[0] == size != a.strides[1]
    function, needed = _planned(code, None, 1, *sizes, c is not None, threads.get_num_threads(), across=across)
    scratch = workspace.take(needed)
    if c is None:
        function(a, b, scratch, to)
    else:
        one, added = _ONE[code], _expanded(c, m, n)
        factors = [one if factor == 1 else np.asarray(factor, x.dtype) for factor in (alpha, beta)]
        function(a, b, added.T if turned else added, *factors, scratch, to)
    return out


@functools.lru_cache(4096)
def _better_turned(code: str, m: int, n: int) -> bool:
    """Whether yᵀ @ xᵀ takes less time than x @ y, if both operands lie depth by depth.

    Packing the right operand then means to turn it, which costs more than to copy the left one; if one of both has few
    rows, nothing is packed.
    """

    def cost(rows: int, columns: int) -> float:
        return tiles.cost(rows, columns, tiles.width(rows, columns, code), code) + 13 * rows + 20 * columns

    if m <= tiles.FEW or n <= tiles.FEW:
        return m > tiles.FEW
    return cost(n, m) < 0.97 * cost(m, n)


def _product_of_pairs(pairs: str, x: Any, y: Any, c: Any, beta: Any, alpha: Any) -> Any:
    """The product of two bfloat16 matrices, in few steps: it takes little time itself."""
    m, n = x.shape[0], y.shape[1]
    function, size = _planned_pairs(pairs, m, x.shape[1], n, c is not None, threads.get_num_threads())
    out = empty((m, n), x.dtype)
    if c is None:
        function(x.view(_bits), y.view(_bits), workspace.take(size), out.view(_bits))
    else:
        factors = [_ONE["f32"] if factor == 1 else np.asarray(factor, _single) for factor in (alpha, beta)]
        function(x.view(_bits), y.view(_bits), _expanded(c, m, n).view(_bits), *factors, workspace.take(size),
                 out.view(_bits))  # fmt: skip
    return out


@functools.lru_cache(4096)
def _planned_pairs(pairs: str, m: int, k: int, n: int, added: bool, cores: int) -> tuple[Any, int]:
    count = max(_pairs_cut(pairs, 1, m, k, n, cores))
    function, size = gemm_bf16.gemm(pairs, added, k, count)
    return (function if count > 1 else direct(function)), size


@functools.lru_cache(4096)
def _planned(
    code: str, pairs: str | None, items: int, m: int, k: int, n: int, added: bool, cores: int, inner: int = 1,
    across: bool = False,
) -> tuple[Any, int]:  # fmt: skip
    """(ufunc, bytes of scratch) of a product that is cut along its batch or its rows and columns, if that pays.

    `inner` is the extent of the last dimension of the batch, along which that is cut. The left operand may lie `across`, column by column.
    """
    work = abs(items) * (m + FETCH) * n * k // PRODUCTS
    if pairs:
        return gemm_bf16.gemm(pairs, added, k, *_pairs_cut(pairs, items, m, k, n, cores))
    parts = (1, 1, 1)
    count = min(cores, worth(work))
    if count > 1 and m:
        parts = (min(inner, EACH * count), 1, 1) if inner >= count else (1, *cells(m, n, count))
    part = -(-m // parts[1]), -(-n // parts[2])
    rows, wide = _tile(code, *part)
    kept = gemm.kept(code, rows, wide, *part) if across else 0
    function, size = gemm.gemm(code, rows, added, parts, wide, m <= tiles.FEW, count, kept)
    return (quickly(function) if work < SOON else function), size


@functools.cache
def quickly(ufunc: Any) -> Any:
    """A ufunc whose call is short beside NumPy's; it holds up other Python threads."""
    return direct(ufunc, *loops[ufunc])


def _pairs_cut(pairs: str, items: int, m: int, k: int, n: int, cores: int) -> tuple[int, int]:
    """How many threads work on each product of pairs, or on how many parts of the batch."""
    # so much less time they take; reading the operands and writing the result counts for more
    work = abs(items) * ((m * n * k >> (3 if pairs == "tiles" else 1)) + 8 * (m * k + k * n + m * n))
    count = min(cores, worth(work // PRODUCTS))
    return (1, count) if items >= count else (count, 1)


def cells(m: int, n: int, count: int) -> tuple[int, int]:
    """How many parts along rows and columns so many threads share: several for each where these are large enough, as cores are
    unequally busy and all wait for the last part. Few rows read the right operand once, where it lies: best in long lines."""
    for each in (EACH, EACH // 2) if m > tiles.FEW else ():
        tall, broad = _grid(m, n, each * count)
        if m // tall >= min(m, _CELL) and n // broad >= min(n, _CELL):
            return tall, broad
    return _grid(m, n, count)


def _grid(m: int, n: int, count: int) -> tuple[int, int]:
    """So many parts: each packs its share of both operands, so squares are best."""
    return min(((i, count // i) for i in range(1, count + 1) if count % i == 0), key=lambda p: m / p[0] + n / p[1])
