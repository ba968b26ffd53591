"""Large results that go past the caches, and memory that is filled by all cores: the same values as small ones have."""

import numpy as np
import pytest

import flambeau as torch
from flambeau._backend.cpu import _past_caches, cpu
from flambeau._kernel.building import jit, llvm
from flambeau._kernel.loops import pointwise
from flambeau._kernel.render.streaming import past
from flambeau._kernel.threads import pool
from flambeau._ops.registry import records

DTYPES = ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "complex64", "complex128"]


@pytest.fixture(params=[(1 << 10, 1), (1 << 10, 0), (1 << 62, 0)], ids=["past_caches", "asked_for_early", "plain"])
def threshold(request):
    before = pool.settings[1], pool.settings[2], past.value
    pool.settings[1], past.value = request.param
    pool.settings[2] = pool.settings[1]
    yield request.param
    pool.settings[1], pool.settings[2], past.value = before


USUAL = [
    "float32",
    "bfloat16",
    "int8",
    "complex128",
]  # elements of every size but one: others are loops of these sizes, too


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in USUAL else [pytest.mark.slow]) for name in DTYPES]
)
def test_dense_results(name, threshold):
    d = getattr(torch, name)
    for n, offset in ((1 << 18, 0), ((1 << 18) + 77, 3)):
        a = (torch.arange(n + 8) % 91).to(d)[offset : offset + n]
        b = (torch.arange(n + 8) % 17).to(d)[1 : 1 + n]
        expected = (torch.arange(n + 8) % 91)[offset : offset + n] + (torch.arange(n + 8) % 17)[1 : 1 + n]
        assert torch.equal((a + b).to(torch.int64) if not d.is_complex else (a + b).real.long(), expected)
        assert torch.equal(a == b, a.clone() == b)


def test_rows_that_do_not_begin_at_a_cache_line(threshold):
    a, b, c = torch.arange(300 * 1001).view(300, 1001).float(), torch.arange(1001).float(), torch.arange(300.0)[:, None]
    exact = np.arange(300 * 1001).reshape(300, 1001)
    assert np.array_equal((a + b).numpy(), exact + np.arange(1001))
    assert np.array_equal((a - c).numpy(), exact - np.arange(300)[:, None])
    assert np.array_equal((b * 2 - a * 0).numpy(), np.broadcast_to(np.arange(1001) * 2, (300, 1001)))


def test_functions_with_rare_cases(threshold):
    x = torch.linspace(-200, 200, 300_001)
    x[7], x[100_000], x[-1] = float("nan"), float("inf"), float("-inf")
    with np.errstate(all="ignore"):
        exact = np.exp(x.numpy().astype("f8"))
    made = x.exp().numpy()
    finite = np.isfinite(exact) & (exact < 3.4e38) & (exact > 1e-30)
    assert np.allclose(made[finite], exact[finite], rtol=1e-6)
    assert np.isnan(made[7]) and made[100_000] == np.inf and made[-1] == 0


def test_layer_norm(threshold):
    x = torch.arange(600 * 515).view(600, 515).float().sin()
    made = torch.nn.functional.layer_norm(x, (515,), torch.full((515,), 2.0), torch.ones(515)).numpy()
    wide = x.numpy().astype("f8")
    exact = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * 2 + 1
    assert np.abs(made - exact).max() < 1e-5


@pytest.mark.parametrize("name", [*DTYPES, "bool"])
def test_filled_memory(name):
    d = getattr(torch, name)
    for n in (70_001, 1_000_003):
        junk = torch.full((n,), 1, dtype=d)
        del junk
        assert not torch.zeros(n, dtype=d).any() and torch.ones(n, dtype=d).eq(1).all()
        assert torch.full((n,), 7, dtype=d).eq(d is torch.bool or 7).all()
        t = torch.empty(2, n, dtype=d)
        t[1].fill_(1)
        t[0].zero_()
        assert not t[0].any() and t[1].eq(1).all() and torch.zeros_like(t.t()).stride() == t.t().stride()


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_softmax(name, threshold):
    x = (torch.arange(700 * 515).view(700, 515) % 97).to(getattr(torch, name)) / 7
    x[3, 5] = float("-inf")
    wide = np.exp(x.numpy().astype("f8") - x.numpy().max(1, keepdims=True))
    exact = wide / wide.sum(1, keepdims=True)
    assert np.allclose(torch.softmax(x, 1).numpy(), exact, rtol=2e-6, atol=1e-30)
    with np.errstate(all="ignore"):
        assert np.allclose(torch.log_softmax(x, 1).numpy(), np.log(exact), rtol=2e-6, atol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["float32", "float64", "bfloat16", "int8", "complex128"])
def test_rows_by_number(name, threshold):
    for width in (1, 63, 64, 1025):
        table = (torch.arange(300 * width) % 91).view(300, width).to(getattr(torch, name))
        index = torch.arange(5000) * 7 % 300
        exact = table.numpy()[index.numpy()] if name != "bfloat16" else table.float().numpy()[index.numpy()]
        for made in (table.index_select(0, index), torch.nn.functional.embedding(index, table), table[index - 300]):
            assert np.array_equal((made.float() if name == "bfloat16" else made).numpy(), exact)
        apart = table.t().contiguous().t()  # elements of a row lie apart
        assert torch.equal(apart.index_select(0, index), table.index_select(0, index))
    for wrong in (300, -301, 1 << 60, -(1 << 60)):
        index[-1] = wrong
        with pytest.raises(IndexError):
            table.index_select(0, index)
        with pytest.raises(IndexError):
            torch.nn.functional.embedding(index, table)


def test_copies(threshold):
    for shape in ((1_000_003,), (1025, 300), (4, 90, 31, 33), (20_000, 9)):
        x = torch.arange(np.prod(shape)).view(shape)
        exact = x.numpy()
        assert np.array_equal(x.clone().numpy(), exact) and np.array_equal(x[3:].clone().numpy(), exact[3:])
        assert np.array_equal(x.flip(0).numpy(), exact[::-1]) and np.array_equal(x.flip(-1).numpy(), exact[..., ::-1])
        padded = torch.nn.functional.pad(x, (2, 1))
        assert np.array_equal(padded.numpy(), np.pad(exact, [(0, 0)] * (x.ndim - 1) + [(2, 1)]))
        assert np.array_equal(torch.nn.functional.pad(padded, (-2, -1)).numpy(), exact)
        assert np.array_equal(torch.nn.functional.pad(padded, (-2, -1), value=5).numpy(), exact)
        assert np.array_equal(torch.nn.functional.pad(padded, (-2, 1), value=5).numpy()[..., :-2], exact)
        assert np.array_equal(torch.cat([x, x], -1).numpy(), np.concatenate([exact, exact], -1))
        assert np.array_equal(x.t().contiguous().t().clone().numpy() if x.ndim == 2 else exact, exact)
        assert torch.full(shape, 3).eq(3).all()


def test_light_loops_stream_before_heavy_ones(monkeypatch):
    light, heavy = (records[name].variant(cpu, torch.float32)[0] for name in ("abs", "exp"))
    assert pointwise.is_light(light) and not pointwise.is_light(heavy)
    streamed = []
    monkeypatch.setattr(pointwise, "past_caches", lambda ufunc: streamed.append(ufunc) or ufunc)
    _past_caches.cache_clear()
    before, pool.settings[1], pool.settings[2] = pool.settings[1:], 1 << 22, 1 << 21
    try:
        x = torch.zeros(1 << 19)
        for call in (torch.abs, torch.exp):
            call(x)
        assert streamed == [light]
        torch.exp(torch.zeros(1 << 20))
        assert streamed == [light, heavy]
    finally:
        pool.settings[1], pool.settings[2] = before
        _past_caches.cache_clear()


def test_results_go_past_the_caches():
    text = pointwise.render_pointwise("kernel", lambda m, x: x * 2.0, ("f32",), ("f32",), ("f32",), stream=True)
    context, target = llvm.loaded().create_context(), jit.target()
    module = llvm.improved(target, text, context, llvm._machine(target))
    assert "!nontemporal" in str(module)  # both ways of writing must not have become one
    module.close()
