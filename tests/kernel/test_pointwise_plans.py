"""Pointwise plans: operands of several dtypes, shapes and sizes give what the Python functions give."""

import itertools
import sys
import threading
import warnings

import numpy as np
import pytest

import flambeau as torch
from flambeau._kernel.native import site
from flambeau._ops.registry import records

native = isinstance(getattr(torch.exp, "__self__", None), site.Site)
pytestmark = pytest.mark.skipif(not native, reason="the native entry is switched off or not known here")

DTYPES = [
    torch.bool, torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64,
]  # fmt: skip
SHAPES = [
    ((3, 4), (3, 4)),
    ((3, 4), (4,)),
    ((3, 4), ()),
    ((), (3, 4)),
    ((1,), (1,)),
    ("turned", (3, 4)),
    ((0, 4), (4,)),
]
CALLS = [
    torch.add, torch.sub, torch.mul, torch.div, torch.maximum, torch.eq, torch.lt, torch.atan2, torch.fmod,
    lambda x, y: torch.where(x == y, x, y),
]  # fmt: skip


def made(dtype, shape, seed):
    generator = torch.Generator().manual_seed(seed)
    if shape == "turned":
        return torch.randint(1, 5, (4, 3), generator=generator).to(dtype).t()
    return torch.randint(1, 5, shape, generator=generator).to(dtype)


def same(call, *operands):
    """Compares a call with the Python function's; whether there is something to compare."""
    try:
        with site.switched_off():
            expected = call(*operands)
    except (RuntimeError, TypeError, NotImplementedError) as error:
        with pytest.raises(type(error)):
            call(*operands)
        return False
    out = call(*operands)
    assert out.dtype is expected.dtype and out.stride() == expected.stride() and out.shape == expected.shape
    if not torch.equal(out, expected):
        torch.testing.assert_close(out, expected, rtol=0, atol=0, equal_nan=True)
    return True


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_operands_of_several_dtypes(call):
    compared = 0
    for a, b in itertools.product(DTYPES, DTYPES):
        for left, right in SHAPES:
            for k in range(2):
                if not same(call, made(a, left, k), made(b, right, k + 10)):
                    break
                compared += 1
    assert compared > 600


@pytest.mark.parametrize("call", [*CALLS[:4], torch.eq], ids=lambda call: call.__name__)
def test_numbers_beside_tensors(call):
    compared = 0
    for dtype, number, shape in itertools.product(DTYPES, (2, 2.5, True, -1, 1e39, 3 + 1j), ((3, 4), ())):
        for k in range(3):
            if not same(call, made(dtype, shape, k), number):
                break
            compared += 1
    assert compared > 200


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_numbers_beside_short_floats_are_planned(dtype, monkeypatch):
    x, calls = torch.arange(21.0).view(3, 7).to(dtype), []
    for call in (torch.add, torch.gt, torch.rsub, torch.clamp_min, lambda x, y: x.clamp(-y, y)):
        assert all([same(call, x, number) for number in (0.7, 1.0042, 3) for _ in range(2)])
    site.wait()
    for call in (torch.add, torch.gt):
        for _ in range(3):
            call(x, 2.5)
        monkeypatch.setattr(type(records["add"]), "common", lambda *_: calls.append(call))
        call(x, 3.5)
        monkeypatch.undo()
    assert not calls


@pytest.mark.parametrize("count", [(1 << 14) - 1, 1 << 14, (1 << 14) + 1, 40_000, 300_000])
@pytest.mark.parametrize("dtype", [torch.int32, torch.float32, torch.float64, torch.bfloat16])
def test_many_elements(count, dtype):
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        x, y = (torch.randint(1, 100, (count,), generator=generator) for _ in range(2))
        assert same(torch.add, x.to(dtype), y.to(dtype)) and same(torch.mul, x.to(dtype), y)
        assert same(torch.mul, x.to(dtype), 3)


@pytest.mark.parametrize("before, after", [(torch.float32, torch.float64), (torch.float64, torch.float32)])
def test_the_default_dtype_is_part_of_a_call(before, after):
    """What integers become is not remembered from the time of another default."""
    i = torch.arange(1, 5)
    calls = [lambda: i * 2.5, lambda: i / 3, lambda: i / i, lambda: torch.sin(i), lambda: torch.where(i > 1, 1.0, i), lambda: i + 1,
             lambda: torch.atan2(i, i[:1]), lambda: i.float().mean(), lambda: torch.softmax(i.double(), 0)]  # fmt: skip
    found = []
    try:
        for default in (before, after):
            torch.set_default_dtype(default)
            with site.switched_off():
                found.append([(call(), call().dtype) for call in calls])
            for _ in range(4):
                for call, (value, dtype) in zip(calls, found[-1]):
                    out = call()
                    assert out.dtype is dtype and torch.equal(out, value)
    finally:
        torch.set_default_dtype(torch.float32)
    assert [d for _, d in found[0][:5]] == [before] * 5 and [d for _, d in found[1][:5]] == [after] * 5


LAYOUTS = {
    "a column": ((256, 300), lambda x: x, lambda y: y[:, :1]),
    "a row": ((256, 300), lambda x: x, lambda y: y[0]),
    "neighbours": ((256, 300), lambda x: x[:, 1:], lambda y: y[:, :-1]),
    "turned": ((300, 300), lambda x: x, lambda y: y.t()),
    "images": ((4, 8, 32, 33), lambda x: x.to(memory_format=torch.channels_last), lambda y: y[:, :, :1]),
    "many short rows": ((9000, 5), lambda x: x[:, 1:], lambda y: y[:, :1]),
    "several threads": ((700, 500), lambda x: x[:, 1:], lambda y: y[:, :-1]),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("threads", [1, 2])
def test_many_elements_that_lie_in_several_ways(layout, threads):
    shape, first, second = LAYOUTS[layout]
    x, y = first(torch.randn(shape)), second(torch.rand(shape) + 0.5)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for call in (torch.div, torch.atan2, torch.lt):
            for _ in range(3):
                assert same(call, x, y)
            plans = [entry[2][0] for entry in records[call.__name__].call.__self__.table.kept]
            assert [plan.counts[:2] for plan in plans] == [[1, 1]] and plans[0].long
        assert call(x, y).stride() == python_result(call, x, y).stride()
    finally:
        torch.set_num_threads(before)


def python_result(call, *operands):
    with site.switched_off():
        return call(*operands)


def test_large_results_begin_at_a_cache_line():
    x, y = torch.randn(256, 256), torch.randn(256, 1)
    for turn in range(6):
        for out in (x * y, x + x):
            assert turn < 3 or out.data_ptr() % 64 == 0  # those before are not planned


def test_flags_that_a_plan_leaves_behind_concern_nobody():
    zero = torch.zeros(300, 3)[:, 1:]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            assert (zero / zero).isnan().all()
            np.float32(1.0) / np.float32(3.0)
            np.add(np.ones(3), 1.0)


def test_out_of_many_elements_is_written_where_it_lies():
    x, out = torch.rand(100_000), torch.zeros(100_000)
    for _ in range(3):
        place = out.data_ptr()
        assert torch.exp(x, out=out) is out and out.data_ptr() == place
        torch.testing.assert_close(out, x.exp())


def test_threads_run_meanwhile():
    """Results of many elements are made while other threads run: each gets its own."""
    wrong = []

    def work(number):
        x = torch.full((50_000,), float(number))
        for _ in range(50):
            if not bool((x * 2.0 + x == 3.0 * number).all()):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_histories_of_results_and_of_one_tensor_twice():
    p = torch.rand(3, 4, dtype=torch.float64, requires_grad=True)
    for _ in range(4):
        q = p * 2
        out = (q * q + q.sigmoid() * p).sum()
        (g,) = torch.autograd.grad(out, p)
        s = (2 * p).sigmoid()
        torch.testing.assert_close(g, (8 * p + 2 * s * (1 - s) * p + s).detach())


def test_arguments_by_name():
    x, y = torch.rand(3), torch.rand(3)
    torch.testing.assert_close(torch.sub(input=x, other=y), x - y)
    torch.testing.assert_close(torch.atan2(x, other=y), torch.atan2(x, y))
    for wrong in (lambda: torch.exp(), lambda: torch.atan2(x), lambda: torch.exp(x, y), lambda: torch.atan2(x, y, z=1)):
        with pytest.raises(TypeError):
            wrong()


def test_histories_of_results_are_made_without_python():
    """Whether the first call that was planned had a leaf or a result for its operand."""
    p = torch.rand(3, 4, requires_grad=True)
    seen = []
    for _ in range(4):
        q = p * 2.0
        (q + p, q.sigmoid(), q * q)
    q = p * 2.0
    sys.setprofile(lambda frame, event, argument: seen.append(frame.f_code.co_name) if event == "call" else None)
    try:
        (q + p, q.sigmoid(), q * q)
    finally:
        sys.setprofile(None)
    assert not seen, seen


def outcome(call, *args):
    try:
        made = call(*args)
    except RuntimeError as error:
        return str(error)
    return made.dtype, made.tolist()


@pytest.mark.parametrize("d", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_integers_beside_narrower_ones_are_looked_at_in_each_call(d):
    x = torch.arange(5).to(d)
    for call in (torch.add, torch.mul, torch.lt, lambda a, n: a.clone().add_(n), lambda a, n: a.clamp(n, 100)):
        for number in (1, 3, 2):
            for _ in range(3):
                call(x, number)
        for number in (0, -1, 100, 127, 128, 255, 256, -129, 40_000, 2**31, -(2**40)):
            with site.switched_off():
                wanted = outcome(call, x, number)
            assert [outcome(call, x, number) for _ in range(4)] == [wanted] * 4
