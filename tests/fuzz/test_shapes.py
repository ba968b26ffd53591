"""Operations on tensors of all shapes (0-d, empty, with extents of 1) against NumPy: broadcasting, reductions, views
and their sharing of memory, joining, products, indexing, gathering and scattering."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import broadcastable, same, seeds, shapes, sides, tensor, values

import flambeau as torch

# -- broadcasting ------------------------------------------------------------------------------------------------


@given(broadcastable(3), seeds)
def test_broadcasting(three, seed):
    a, b, c = (values(seed + i, shape, "float64") for i, shape in enumerate(three))
    x, y, z = tensor(a), tensor(b), tensor(c)
    same(x + y * z, a + b * c)
    same(torch.where(x > y, y, z), np.where(a > b, b, c))
    same(torch.addcdiv(x, y, z), a + b / c)
    full = np.broadcast_shapes(*three)
    assert tuple(torch.broadcast_shapes(*three)) == full
    for wide, array in zip(torch.broadcast_tensors(x, y, z), (a, b, c)):
        same(wide, np.broadcast_to(array, full))


@given(broadcastable(2), seeds)
def test_gradients_have_the_shape_of_their_inputs(two, seed):
    a, b = (values(seed + i, shape, "float64") for i, shape in enumerate(two))
    x, y = tensor(a).requires_grad_(), tensor(b).requires_grad_()
    (x * y).sum().backward()
    full = np.broadcast_shapes(*two)
    for t, other, shape in ((x, b, a.shape), (y, a, b.shape)):
        lead = len(full) - len(shape)
        dims = tuple(range(lead)) + tuple(i + lead for i, n in enumerate(shape) if n == 1 and full[i + lead] != 1)
        same(t.grad, np.broadcast_to(other, full).sum(dims, keepdims=True).reshape(shape))


# -- reductions --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(shapes(), seeds, st.booleans(), st.data())
def test_reductions(shape, seed, keepdim, data):
    a = values(seed, shape, "float64")
    x = tensor(a)
    dims = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True, min_size=1)) if shape else []
    axis = tuple(dims)
    given_dims = [d - len(shape) if data.draw(st.booleans()) else d for d in dims]
    for name in ("sum", "any", "all", "nansum"):
        same(
            getattr(torch, name)(x, given_dims, keepdim=keepdim),
            getattr(np, name)(a, axis, keepdims=keepdim),
            message=name,
        )
    same(torch.count_nonzero(x, given_dims), np.count_nonzero(a, axis) if dims else np.count_nonzero(a))
    if all(shape[d] for d in dims):
        for name in ("amax", "amin", "mean"):
            same(
                getattr(torch, name)(x, given_dims, keepdim=keepdim),
                getattr(np, name)(a, axis, keepdims=keepdim),
                message=name,
            )
        same(torch.logsumexp(x, given_dims, keepdim), np.log(np.exp(a).sum(axis, keepdims=keepdim)))
        same(torch.var(x, given_dims, correction=0, keepdim=keepdim), a.var(axis, keepdims=keepdim))
    if dims and shape[dims[0]]:
        d = dims[0]
        for name in ("argmax", "argmin"):
            same(getattr(torch, name)(x, d, keepdim), getattr(np, name)(a, d, keepdims=keepdim), message=name)
        found, index = torch.max(x, d, keepdim)
        same(found, a.max(d, keepdims=keepdim))
        same(index, a.argmax(d, keepdims=keepdim))
        n = shape[d]
        same(torch.median(x, d, keepdim)[0], np.sort(a, d).take([(n - 1) // 2] if keepdim else (n - 1) // 2, d))


@given(shapes(1, 4), seeds, st.data())
def test_cumulative(shape, seed, data):
    a = values(seed, shape, "float64")
    x, d = tensor(a), data.draw(st.integers(-len(shape), len(shape) - 1))
    same(torch.cumsum(x, d), a.cumsum(d))
    same(torch.cumprod(x, d), a.cumprod(d))
    same(torch.cummax(x, d)[0], np.maximum.accumulate(a, d))
    same(torch.cummin(x, d)[0], np.minimum.accumulate(a, d))
    same(torch.logcumsumexp(x, d), np.logaddexp.accumulate(a, d))
    if shape[d]:
        same(torch.diff(x, dim=d), np.diff(a, axis=d))
    assert torch.equal(torch.gather(x, d, torch.cummax(x, d)[1]), torch.cummax(x, d)[0])


@pytest.mark.slow
@given(shapes(1, 3, 6), seeds, st.booleans(), st.data())
def test_order(shape, seed, descending, data):
    a = np.round(values(seed, shape, "float64"))  # with equal elements
    x, d = tensor(a), data.draw(st.integers(0, len(shape) - 1))
    found, index = torch.sort(x, d, descending, stable=True)
    same(found, np.flip(np.sort(a, d), d) if descending else np.sort(a, d))
    same(index, np.argsort(-a if descending else a, d, kind="stable"))
    k = data.draw(st.integers(0, shape[d]))
    found, index = torch.topk(x, k, d, descending)
    same(found, np.take(np.flip(np.sort(a, d), d) if descending else np.sort(a, d), range(k), d))
    assert torch.equal(torch.gather(x, d, index), found)
    if k and a.size:
        same(torch.kthvalue(x, k, d)[0], np.take(np.sort(a, d), k - 1, d))
    found, back, counts = torch.unique(x, return_inverse=True, return_counts=True)
    expected, inverse, numbers = np.unique(a, return_inverse=True, return_counts=True)
    same(found, expected)
    same(back, inverse.reshape(shape))
    same(counts, numbers)


# -- views -------------------------------------------------------------------------------------------------------


def writable(view):
    view.setflags(write=True)
    return view


def a_view(data, t, a):
    """One view of a tensor and the same view of an array."""
    ndim, shape = a.ndim, a.shape
    dims = st.integers(0, max(ndim - 1, 0))
    kind = data.draw(st.sampled_from((
        "permute", "transpose", "unsqueeze", "squeeze", "expand", "narrow", "select", "slice", "view", "flatten",
        "unfold", "as_strided", "split", "chunk", "movedim", "diagonal", "unflatten", "swap", "unbind", "t",
    )))  # fmt: skip
    if kind == "unsqueeze":
        d = data.draw(st.integers(0, ndim))
        return t.unsqueeze(d), np.expand_dims(a, d)
    if kind == "expand":
        lead = data.draw(shapes(0, 1, 3))
        full = lead + tuple(data.draw(sides(3)) if n == 1 else n for n in shape)
        keep = tuple(-1 if n == m and data.draw(st.booleans()) else n for n, m in zip(full[len(lead) :], shape))
        return t.expand(lead + keep), writable(np.broadcast_to(a, full))
    if kind == "view" and a.flags.c_contiguous and a.size:
        return t.view(-1, shape[-1] if ndim else 1), a.reshape(-1, shape[-1] if ndim else 1)
    if kind == "as_strided" and a.flags.c_contiguous and a.size > 2:
        size = a.strides[-1] if ndim else a.itemsize
        view = np.lib.stride_tricks.as_strided(a, (2, a.size - 1), (size, size))
        return t.as_strided((2, a.size - 1), (1, 1), t.storage_offset()), view
    if not ndim:
        return t, a
    d = data.draw(dims)
    if kind == "permute":
        order = data.draw(st.permutations(range(ndim)))
        return t.permute(*order), a.transpose(order)
    if kind in ("transpose", "swap"):
        e = data.draw(dims)
        return (t.transpose(d, e) if kind == "transpose" else t.swapaxes(d, e - ndim)), a.swapaxes(d, e)
    if kind == "movedim":
        e = data.draw(dims)
        return t.movedim(d, e), np.moveaxis(a, d, e)
    if kind == "squeeze":
        return t.squeeze(d), a.squeeze(d) if shape[d] == 1 else a
    if kind == "narrow":
        start = data.draw(st.integers(0, shape[d]))
        length = data.draw(st.integers(0, shape[d] - start))
        return t.narrow(d, start, length), a[(slice(None),) * d + (slice(start, start + length),)]
    if kind == "select" and shape[d]:
        i = data.draw(st.integers(-shape[d], shape[d] - 1))
        return t.select(d, i), a[(slice(None),) * d + (i, ...)]
    if kind == "slice":
        cut = slice(
            data.draw(st.integers(-3, 3)),
            data.draw(st.one_of(st.none(), st.integers(-3, 9))),
            data.draw(st.integers(1, 3)),
        )
        return t[cut], a[cut]
    if kind == "flatten" and a.flags.c_contiguous:
        return t.flatten(d), a.reshape(shape[:d] + (int(np.prod(shape[d:])),))
    if kind == "unfold":
        size, step = data.draw(st.integers(0, shape[d])), data.draw(st.integers(1, 3))
        if size:
            windows = np.lib.stride_tricks.sliding_window_view(a, size, d, writeable=True)
            return t.unfold(d, size, step), windows[(slice(None),) * d + (slice(None, None, step),)]
    if kind == "split" and shape[d]:
        n = data.draw(st.integers(1, shape[d]))
        parts = t.split(n, d)
        i = data.draw(st.integers(0, len(parts) - 1))
        assert len(parts) == -(-shape[d] // n)
        return parts[i], a[(slice(None),) * d + (slice(i * n, (i + 1) * n),)]
    if kind == "chunk" and shape[d]:
        parts = t.chunk(2, d)
        half = -(-shape[d] // 2)
        return parts[-1], a[(slice(None),) * d + (slice(half * (len(parts) - 1), None),)]
    if kind == "diagonal" and ndim > 1:
        offset = data.draw(st.integers(-1, 1))
        return t.diagonal(offset, -2, -1), writable(a.diagonal(offset, -2, -1))
    if kind == "unflatten" and shape[d] and shape[d] % 2 == 0 and a.flags.c_contiguous:
        return t.unflatten(d, (-1, 2)), a.reshape(shape[:d] + (shape[d] // 2, 2) + shape[d + 1 :])
    if kind == "unbind" and shape[d]:
        return t.unbind(d)[-1], np.moveaxis(a, d, 0)[-1, ...]
    if kind == "t" and ndim == 2:
        return t.t(), a.T
    return t, a


@given(shapes(0, 4), seeds, st.integers(1, 5), st.data())
def test_views_share_memory(shape, seed, count, data):
    base = values(seed, shape, "float64")
    t = whole = tensor(base)
    a = base
    for _ in range(count):
        t, a = a_view(data, t, a)
        same(t, a, 0)
        if t.numel() > 1 and 0 not in a.strides:
            assert [s * 8 for s, n in zip(t.stride(), t.shape) if n > 1] == [
                s for s, n in zip(a.strides, a.shape) if n > 1
            ]
    if a.size and t is not whole:
        assert t.untyped_storage().data_ptr() == whole.untyped_storage().data_ptr()
        element = (0,) * a.ndim
        t[element] = 77.0
        a[element] = 77.0
        same(whole, base, 0)
        same(t, a, 0)
    copy = t.reshape(-1)
    same(copy, a.reshape(-1), 0)


# -- joining and repeating ---------------------------------------------------------------------------------------


@given(shapes(1, 4), seeds, st.integers(1, 4), st.data())
def test_joining(shape, seed, count, data):
    d = data.draw(st.integers(0, len(shape) - 1))
    parts = [values(seed + i, shape[:d] + (data.draw(sides()),) + shape[d + 1 :], "float32") for i in range(count)]
    same(torch.cat([tensor(p) for p in parts], d), np.concatenate(parts, d), 0)
    e = data.draw(st.integers(-len(shape) - 1, len(shape)))
    alike = [values(seed + i, shape, "int32") for i in range(count)]
    same(torch.stack([tensor(p) for p in alike], e), np.stack(alike, e))
    a, x = alike[0], tensor(alike[0])
    shift = data.draw(st.integers(-9, 9))
    same(torch.roll(x, shift, d), np.roll(a, shift, d))
    same(torch.roll(x, shift), np.roll(a, shift))
    same(torch.flip(x, (d,)), np.flip(a, d))
    times = data.draw(st.lists(st.integers(0, 3), min_size=len(shape), max_size=len(shape) + 1))
    same(x.repeat(*times), np.tile(a, times))
    same(torch.tile(x, times[:1]), np.tile(a, times[:1]))
    same(torch.repeat_interleave(x, times[0], d), np.repeat(a, times[0], d))
    if len(shape) > 1:
        k = data.draw(st.integers(-3, 3))
        same(torch.tril(x, k), np.tril(a, k))
        same(torch.triu(x, k), np.triu(a, k))
        same(torch.rot90(x, k, (0, 1)), np.rot90(a, k))


# -- products ----------------------------------------------------------------------------------------------------


@given(broadcastable(2, 2), sides(), sides(), sides(), seeds, st.sampled_from([0, 1, 2]))
def test_matmul(batches, n, k, m, seed, vector):
    left = values(seed, (k,) if vector == 1 else batches[0] + (n, k), "float64")
    right = values(seed + 1, (k,) if vector == 2 else batches[1] + (k, m), "float64")
    same(tensor(left) @ tensor(right), left @ right)


@given(seeds, st.data())
def test_einsum(seed, data):
    extents = {c: data.draw(st.integers(1, 3)) for c in "abcde"}
    count = data.draw(st.integers(1, 3))
    terms = [data.draw(st.text("abcde", max_size=3)) for _ in range(count)]
    used = sorted(set("".join(terms)))
    out = "".join(data.draw(st.permutations(used)))[: data.draw(st.integers(0, len(used)))]
    arrays = [values(seed + i, tuple(extents[c] for c in term), "float64") for i, term in enumerate(terms)]
    equation = ",".join(terms) + "->" + out
    same(torch.einsum(equation, *map(tensor, arrays)), np.einsum(equation, *arrays), message=equation)


# -- indexing ----------------------------------------------------------------------------------------------------


def basic_key(data, shape):
    key, left = [], list(shape)
    while left and data.draw(st.integers(0, 4)):
        n = left.pop(0)
        kind = data.draw(st.sampled_from(["int", "slice", "none", "slice"]))
        if kind == "int" and n:
            key.append(data.draw(st.integers(-n, n - 1)))
        elif kind == "none":
            key += [None, slice(None)]
        else:
            ends = st.one_of(st.none(), st.integers(-5, 5))
            key.append(slice(data.draw(ends), data.draw(ends), data.draw(st.one_of(st.none(), st.integers(1, 3)))))
    if data.draw(st.booleans()):
        key.append(Ellipsis)
    return tuple(key)


def advanced_key(data, shape):
    """Index arrays and masks among slices (no numbers: there NumPy's rule for the place of the result is another)."""
    key, left, common = [], list(shape), data.draw(shapes(1, 2, 3))
    while left and data.draw(st.integers(0, 4)):
        n = left.pop(0)
        kind = data.draw(st.sampled_from(["index", "mask", "slice"]))
        if kind == "index" and n:
            own = tuple(1 if data.draw(st.booleans()) else m for m in common)
            key.append(np.random.default_rng(data.draw(seeds)).integers(-n, n, own))
        elif kind == "mask" and not any(isinstance(k, np.ndarray) for k in key):
            key.append(values(data.draw(seeds), (n,), "bool"))
            common = (int(key[-1].sum()),)
        else:
            key.append(slice(None, None, data.draw(st.integers(1, 2))))
    return tuple(key)


def as_tensors(key):
    return tuple(tensor(k) if isinstance(k, np.ndarray) else k for k in key)


@given(shapes(0, 4), seeds, st.booleans(), st.data())
def test_getitem_and_setitem(shape, seed, basic, data):
    a = values(seed, shape, "float64")
    x = tensor(a)
    key = basic_key(data, shape) if basic else advanced_key(data, shape)
    same(x[as_tensors(key)], a[key], 0, key)
    part = np.shape(a[key])
    y = x.clone()
    number = a.copy()
    y[as_tensors(key)] = 5.0
    number[key] = 5.0
    same(y, number, 0, key)
    if basic or not a[key].size or len(np.unique(np.arange(a.size).reshape(shape)[key])) == a[key].size:
        given_values = values(seed + 1, tuple(1 if data.draw(st.booleans()) else n for n in part), "float64")
        x[as_tensors(key)] = tensor(given_values)
        a[key] = given_values
        same(x, a, 0, key)


@given(shapes(1, 3), seeds, st.data())
def test_mask_of_several_dimensions(shape, seed, data):
    a, mask = values(seed, shape, "int64"), values(seed + 1, shape[: data.draw(st.integers(1, len(shape)))], "bool")
    x = tensor(a)
    same(x[tensor(mask)], a[mask])
    x[tensor(mask)] = -1
    a[mask] = -1
    same(x, a)
    full = values(seed + 2, shape, "bool")
    same(torch.masked_select(x, tensor(full)), a[full])
    same(torch.nonzero(tensor(full)), np.argwhere(full))
    source = values(seed + 3, (a.size,), "int64")
    a[full] = source[: int(full.sum())]
    same(x.masked_scatter(tensor(full), tensor(source)), a)


@pytest.mark.slow
@given(shapes(1, 3), seeds, st.sampled_from(["float32", "int64", "bfloat16", "bool"]), st.data())
def test_gather_and_scatter(shape, seed, dtype, data):
    d = data.draw(st.integers(0, len(shape) - 1))
    a = values(seed, shape, dtype)
    x, n = tensor(a), shape[d]
    if not n:
        return
    corner = tuple(data.draw(st.integers(0, m)) for m in shape[:d]) + (data.draw(sides()),) + tuple(
        data.draw(st.integers(0, m)) for m in shape[d + 1 :])  # fmt: skip
    index = np.random.default_rng(seed).integers(0, n, corner)
    places = list(np.ogrid[tuple(slice(m) for m in corner)])
    places[d] = index
    found = a[tuple(places)] if index.size else np.zeros(corner, a.dtype)
    same(torch.gather(x, d, tensor(index)), found, 0)
    source = values(seed + 1, corner, dtype)
    if dtype != "bool" and dtype != "bfloat16":
        expected = a.copy()
        np.add.at(expected, tuple(places), source)
        same(torch.scatter_add(x, d, tensor(index), tensor(source)), expected)
        rows = np.random.default_rng(seed).integers(0, n, 3)
        block = values(seed + 2, shape[:d] + (3,) + shape[d + 1 :], dtype)
        expected = a.copy()
        np.add.at(expected, (slice(None),) * d + (rows,), block)
        same(torch.index_add(x, d, tensor(rows), tensor(block)), expected)
        same(torch.index_select(x, d, tensor(rows)), np.take(a, rows, d))
        expected = a.copy()
        np.maximum.at(expected, tuple(places), source)
        same(torch.scatter_reduce(x, d, tensor(index), tensor(source), "amax"), expected)
    expected = a.copy()
    if index.size:
        expected[tuple(places)] = 1
    same(torch.scatter(x, d, tensor(index), 1), expected, 0)
    if a.size:
        flat = np.random.default_rng(seed).integers(-a.size, a.size, (2, 2))
        same(torch.take(x, tensor(flat)), a.reshape(-1)[flat], 0)
        expected = a.reshape(-1).copy()
        once = flat.reshape(-1)[:1]
        expected[once] = values(seed, (1,), dtype)
        same(x.put(tensor(once), tensor(values(seed, (1,), dtype))), expected.reshape(shape), 0)
