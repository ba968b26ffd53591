"""The native entry: it gives what the Python function gives, holds no references too many, and stands aside when it must."""

import copy
import ctypes
import gc
import inspect
import pickle
import subprocess
import sys
import threading
import types
import weakref

import numpy as np
import pytest

import flambeau as torch
from flambeau._kernel.building import elf
from flambeau._kernel.loops.dialect import compile_function, inline
from flambeau._kernel.native import plan, site
from flambeau._ops.registry import records
from flambeau.overrides import TorchFunctionMode

native = isinstance(getattr(torch.exp, "__self__", None), site.Site)
needs_entry = pytest.mark.skipif(not native, reason="the native entry is switched off or not known here")


pytestmark = pytest.mark.filterwarnings("ignore:invalid value")


def python_function(function):
    return function.__self__.slow if native else function


def operands(dtype=torch.float32):
    torch.manual_seed(0)
    x = (torch.rand(6, 5, 4) * 3 + 1).to(dtype)
    wide = (torch.rand(6, 10, 4) * 3 + 1).to(dtype)
    return [
        x, x.permute(2, 0, 1), wide[:, ::2], x[:, :1], x[0], x[0, 0], x[0, 0, 0], x.permute(0, 2, 1).contiguous().permute(0, 2, 1),
        x[:, :, :1].expand(6, 5, 4), x[:0], wide[1:, 1::3, 1:],
    ]  # fmt: skip


def same(made, expected, rtol=0.0):
    assert made.dtype is expected.dtype and made.shape == expected.shape and made.stride() == expected.stride()
    np.testing.assert_allclose(made.detach()._array, expected.detach()._array, rtol=rtol)


@pytest.mark.sweep
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.int64, torch.int32, torch.bfloat16, torch.complex64]
)
@pytest.mark.parametrize("name", ["add", "mul", "sub", "eq"])
def test_two_operands_of_any_layout(name, dtype):
    function = records[name].call
    given = operands(dtype)
    for x in given:
        for y in given:
            try:
                expected = python_function(function)(x, y)
            except RuntimeError as error:
                with pytest.raises(RuntimeError, match="size of tensor"):
                    function(x, y)
                assert "size of tensor" in str(error)
                continue
            for _ in range(3):  # the first call makes the plan
                same(function(x, y), expected)


@pytest.mark.parametrize("name", ["exp", "neg", "sigmoid", "isnan", "abs"])
def test_one_operand_of_any_layout(name):
    function = records[name].call
    for x in operands() + operands(torch.complex64) * (name in ("exp", "neg", "abs")):
        expected = python_function(function)(x)
        for _ in range(3):
            same(function(x), expected, 3e-7)  # NumPy may take a loop for other strides, whose sums are made otherwise


@pytest.mark.parametrize("number", [2, -7, 0.5, 1e-30, 2**40, True, float("inf"), float("nan"), 3.3e38, 1e300, 2**70])
def test_numbers(number):
    for x in (*operands()[:4], torch.arange(5), torch.arange(5, dtype=torch.int32), torch.ones(3, dtype=torch.float64)):
        for function in (torch.mul, records["add"].call):
            try:
                expected = python_function(function)(x, number)
            except (RuntimeError, OverflowError) as error:
                with pytest.raises(type(error)):
                    function(x, number)
                continue
            for _ in range(2):
                same(function(x, number), expected)
    for first in (2, 2.5):  # a number before the tensor
        for _ in range(3):
            same(
                records["pow"].call(first, torch.tensor([1.0, 2.0])),
                torch.tensor([first, first**2], dtype=torch.float32),
            )
    same(torch.ones(2) * 3, torch.full((2,), 3.0))
    same(torch.ones(2) * 4, torch.full((2,), 4.0))  # the plan knows that there is a number, not which


def test_sizes_on_both_sides_of_the_limit():
    for n in (1, 16383, 16384, 16385, 200_000):
        x = torch.arange(n, dtype=torch.float32)
        for _ in range(2):
            same(x + x, python_function(records["add"].call)(x, x))


def test_history():
    x = torch.rand(3, 4, requires_grad=True)
    p = torch.nn.Parameter(torch.rand(4))
    for _ in range(3):
        x.grad = p.grad = None
        out = x * p
        assert out.requires_grad and out.grad_fn.name() == "MulBackward0"
        out.exp().sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), (p * (x * p).exp()).detach().numpy(), rtol=1e-6)
        np.testing.assert_allclose(p.grad.numpy(), (x * (x * p).exp()).sum(0).detach().numpy(), rtol=1e-6)
        with torch.no_grad():
            assert not (x * p).requires_grad
        with torch.inference_mode():
            assert (x * p).is_inference()
        assert not (x < p).requires_grad


def test_histories_keep_the_numbers_of_their_own_call():
    """Calls that differ by numbers share a plan; equal numbers may be one object."""
    x = torch.linspace(-2, 2, 8, requires_grad=True)

    def slope(function):
        (g,) = torch.autograd.grad(function(x).sum(), x)
        return g

    for _ in range(3):
        for alpha in (1.0, 2.0, 1.0, 3.0):
            expected = torch.where(x > 0, torch.ones(8), alpha * x.exp()).detach()
            np.testing.assert_allclose(
                slope(lambda t, a=alpha: torch.nn.functional.elu(t, a)).numpy(), expected.numpy(), rtol=1e-6
            )
            np.testing.assert_allclose(slope(lambda t, a=alpha: t * a).numpy(), np.full(8, alpha))
        np.testing.assert_allclose(slope(torch.nn.functional.selu)[-1].item(), 1.0507009873554805, rtol=1e-6)


@pytest.mark.slow
@needs_entry
def test_no_reference_too_many():
    x, y = torch.rand(4, 4), torch.rand(4, 4)
    z = torch.rand(4, 4, requires_grad=True)
    d = x._array.dtype

    def run(times):
        for _ in range(times):
            _ = x + y, x * 2.0, x.exp(), x + y[0], z * x, -z
        gc.collect()
        return [sys.getrefcount(o) for o in (x, y, z, x._array, y._array, d, torch.float32)]

    run(10)
    before = run(1)
    assert run(1000) == before


@pytest.mark.slow
@needs_entry
@pytest.mark.parametrize(
    "call",
    [
        lambda x, p, w: p.sum(1), lambda x, p, w: torch.softmax(p, -1), lambda x, p, w: p.max(1), lambda x, p, w: p.sort(1),
        lambda x, p, w: torch.nn.functional.linear(x, w), lambda x, p, w: torch.sigmoid(p), lambda x, p, w: p * 2.5,
        lambda x, p, w: p + x[0], lambda x, p, w: p.std(1), lambda x, p, w: x.max(1), lambda x, p, w: p > x,
    ],
)  # fmt: skip
def test_no_reference_too_many_by_nodes(call):
    """Of what all objects share, too: before Python 3.12 even None is counted."""
    x, p, w = torch.rand(4, 6), torch.rand(4, 6, requires_grad=True), torch.nn.Parameter(torch.rand(3, 6))
    with torch.no_grad():
        w.add_(1.0)  # its node has to remember that it was written
    shared = [None, True, 0, 1, torch.float32, torch.int64, x._array.dtype, x, p, w, p._array, w._array]

    def run(times):
        for _ in range(times):
            call(x, p, w)
        gc.collect()
        return np.array([sys.getrefcount(o) for o in shared])

    run(10)
    before = run(1)
    assert abs(run(500) - before).max() < 50


def test_what_stands_in_the_way():
    class Mine(torch.Tensor):
        pass

    x, y = torch.ones(2, 2), torch.ones(2, 2)
    _ = x + y, x + y
    assert type(x.as_subclass(Mine) + y) is Mine
    seen = []

    class Watch(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(function.__name__)
            return function(*args, **(kwargs or {}))

    with Watch():
        _ = x * y, torch.exp(x)
    assert seen == ["mul", "exp"]
    with torch.autocast("cpu", torch.bfloat16):
        assert (torch.mm(x, y) * y).dtype is torch.float32
    assert torch.func.vmap(lambda a: a * y)(torch.ones(3, 2, 2)).shape == (3, 2, 2)
    assert (x.to("meta") * y.to("meta")).is_meta
    out = torch.empty(2, 2)
    assert torch.mul(x, y, out=out) is out and out.equal(x)
    assert torch.mul(input=x, other=y).equal(x) and torch.mul(x, other=3).equal(x * 3)


def test_errors_are_those_of_the_python_function():
    x = torch.ones(2)
    for call in (lambda: torch.mul(x), lambda: torch.mul(x, x, x), lambda: torch.exp("a"), lambda: torch.mul(x, None)):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(TypeError):
        _ = x * None
    with pytest.raises(TypeError):
        _ = x + "a"
    with pytest.raises(RuntimeError, match="size of tensor"):
        _ = torch.ones(2) * torch.ones(3)

    class Other:
        def __radd__(self, other):
            return "theirs"

    assert x + Other() == "theirs"


def test_functions_look_like_functions():
    for function in (torch.exp, torch.mul, torch.special.erfcx):
        assert pickle.loads(pickle.dumps(function)) is function
        assert copy.deepcopy(function) is function and function.__name__ and function.__doc__
    assert list(inspect.signature(torch.exp).parameters) == ["input", "out"]
    assert torch.Tensor.exp is torch.exp and torch.ones(2).exp().equal(torch.exp(torch.ones(2)))


@needs_entry
def test_tensors_that_nobody_made_are_errors():
    bare = object.__new__(torch.Tensor)
    for call in (torch.exp, lambda t: torch.mul(torch.ones(2), t)):
        with pytest.raises((AttributeError, TypeError)):
            call(bare)


@needs_entry
def test_dtypes_of_arrays_live_as_long_as_their_plans():
    for kind in ("<f4", "<f8", "<i8") * 30:
        x = torch.from_numpy(np.frombuffer(bytes(range(64)), np.dtype(np.dtype(kind).descr[0][1])).copy())
        own = pickle.loads(pickle.dumps(x._array.dtype))
        x._array = x._array.view(own)
        same(x.__neg__(), python_function(records["neg"].call)(x))


@needs_entry
def test_a_table_that_grows_and_is_emptied(monkeypatch):
    monkeypatch.setattr(plan, "PLANS", 64)
    function = records["fmod"].call
    table = function.__self__.table
    x = torch.arange(400.0)
    for n in range(1, 300):
        part, other = x[: 2 * n : 2], x[1]
        for _ in range(2):
            same(function(part, other), python_function(function)(part, other))
        assert len(table.kept) <= 64
    assert table.words[0] >= len(table.kept)


def test_a_full_table_is_emptied_less_and_less_often(monkeypatch):
    monkeypatch.setattr(plan, "PLANS", 4)
    table, made = plan.Table(), []
    for n in range(200):
        if table.accepts():
            table.add([n], plan.NO_PLAN, [])
            made.append(n)
        assert len(table.kept) <= 4
    assert made[:8] == [0, 1, 2, 3, 4, 5, 6, 7] and len(made) < 40  # then 4, 12, 28, … come in vain


def test_plans_are_dropped_when_no_site_knows_them():
    table, seen = plan.Table(), []

    class User:
        def use(self, words):
            seen.append([reference() is not None for reference in plans])

    plans: list = []
    table.serve(User())
    for n in range(3):
        table.add([n], plan.NO_PLAN, [])
        plans.append(weakref.ref(table.kept[0][1]))
        table.forget()
    assert seen == [[], [True], [True, True], [False, True, True]]


def test_threads_share_a_table(monkeypatch):
    """One forgets the plans, which makes the table small, while others enter theirs: nobody looks for a free slot of it for ever."""
    monkeypatch.setattr(plan, "PLANS", 24)
    table, wrong = plan.Table(), []

    def work(start):
        try:
            for n in range(start, start + 200):
                table.patience = 0
                if table.accepts():
                    table.add([n], plan.NO_PLAN, [])
        except BaseException as error:
            wrong.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(1000 * i,), daemon=True) for i in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(30)
    finally:
        sys.setswitchinterval(before)
    assert not wrong and not any([t.is_alive() for t in threads])
    assert 2 * len(table.kept) <= table.words[0] + 1


@needs_entry
def test_many_threads_plan_at_once():
    function, wrong = records["hypot"].call, []

    def work(seed):
        generator = np.random.default_rng(seed)
        for _ in range(300):
            n, m = generator.integers(1, 12, 2)
            x, y = torch.ones(n, m).t(), torch.ones(m, 1)
            if not function(x, y).equal(python_function(function)(x, y)):
                wrong.append((n, m))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@needs_entry
def test_a_result_that_cannot_be_made_is_left_to_python(monkeypatch):
    """Without memory the entry frees what it had and calls the Python function, which finds some or says why there is none."""
    x = torch.ones(4)
    _ = x + x
    broken = site._entries.known
    place = site.KNOWN_NAMES.index("new")
    address = broken[place]
    try:
        fail = compile_function("fails", _fails, ["a", "b", "c", "d", "e", "f", "g", "h"])
        broken[place] = fail
        assert records["add"].call(x, x).tolist() == [2.0] * 4
    finally:
        broken[place] = address
    assert (x + x).tolist() == [2.0] * 4


def _fails(m, a, b, c, d, e, f, g, h):
    return m.call("PyErr_NoMemory")


@inline
def _second(m, p):
    return m.word(p, 8)


def _larger(m, p, q):
    total = 0
    for i in range(3):
        total += m.word(p, i * 8)
    if total > _second(m, q):
        return total
    return 0 - total


def test_the_dialect():
    import array
    import ctypes

    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(
        compile_function("larger", _larger, ["p", "q"])
    )
    numbers, limit = array.array("q", [1, 2, 39]), array.array("q", [0, 41])
    assert function(numbers.buffer_info()[0], limit.buffer_info()[0]) == 42
    limit[1] = 42
    assert function(numbers.buffer_info()[0], limit.buffer_info()[0]) == -42


def test_it_can_be_switched_off():
    program = """
import flambeau as torch
x = torch.ones(3, requires_grad=True)
(x * 2.0 + x).exp().sum().backward()
print(type(torch.exp).__name__, x.grad.tolist())
"""
    made = subprocess.run(
        [sys.executable, "-c", program], env={**__import__("os").environ, "FLAMBEAU_NATIVE_ENTRY": "0"}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert made.stdout.startswith("function [60.25661")


F = torch.nn.functional


@needs_entry
@pytest.mark.parametrize(
    "call",
    [
        lambda x, p, w: -x, lambda x, p, w: x.exp(), lambda x, p, w: x.sum(1), lambda x, p, w: x.max(1),
        lambda x, p, w: x.softmax(1), lambda x, p, w: p.softmax(1), lambda x, p, w: F.linear(x, w), lambda x, p, w: F.layer_norm(x, (4,)),
        lambda x, p, w: F.mse_loss(x, x), lambda x, p, w: x.std(1), lambda x, p, w: x + x, lambda x, p, w: x / 1.5, lambda x, p, w: x < x,
    ],
)  # fmt: skip
def test_planned_calls_run_no_python(call):
    """What a plan knows is left to machine code: the Python function would give the same, later."""
    given = torch.rand(3, 4), torch.rand(3, 4, requires_grad=True), torch.rand(5, 4)
    for _ in range(4):
        call(*given)
    entered = []
    sys.setprofile(lambda frame, event, argument: entered.append(frame.f_code) if event == "call" else None)
    try:
        call(*given)
    finally:
        sys.setprofile(None)
    assert entered == [call.__code__]


def test_interpreters_that_it_does_not_know(monkeypatch):
    monkeypatch.delenv("FLAMBEAU_NATIVE_ENTRY", raising=False)
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: True, raising=False)
    known = sys.implementation.name == "cpython" and hasattr(ctypes.pythonapi, "PyObject_Vectorcall")
    assert site.usable() is known
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    assert not site.usable()
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: True, raising=False)
    monkeypatch.setattr(sys, "implementation", types.SimpleNamespace(name="other"))
    assert not site.usable()


@pytest.mark.parametrize("rank", [1, 4, 7, 8, 9])
@pytest.mark.parametrize("count", [2, 5, 8, 23, 24, 25, 60])
def test_lists_of_any_length_and_rank(rank, count):
    """Descriptions that are too long for the entry go to the Python function."""
    parts = [torch.full((1, 2) + (1,) * (rank - 2) if rank > 1 else (2,), float(i)) for i in range(count)]
    expected = [float(i) for i in range(count) for _ in range(2)]
    for _ in range(4):
        assert torch.cat(parts, 0).flatten().tolist() == expected
        assert torch.stack(parts).flatten().tolist() == expected
    leaves = [t.requires_grad_() for t in parts]
    for _ in range(4):
        slopes = torch.autograd.grad(torch.cat(leaves, 0).square().sum(), leaves)
        assert [g.flatten().tolist() for g in slopes] == [[2.0 * i] * 2 for i in range(count)]


_KEYS = """
import flambeau as torch
from flambeau._kernel.native import site
kept = {torch.sin: "sin", torch.matmul: "matmul", torch.Tensor.add: "add"}
class Own:
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return kept[function]
for _ in range(2):
    assert torch.sin(Own()) == "sin" and torch.matmul(torch.ones(2, 2), Own()) == "matmul"
    site.wait()
    torch.sin(torch.ones(2))
    with site.switched_off():
        assert kept[torch.matmul] == "matmul"
assert kept[torch.Tensor.add] == "add"
"""


@pytest.mark.skipif(not elf.machine(), reason="the jump is written for Linux")
def test_functions_stay_the_keys_they_were_before_the_first_call():
    subprocess.run([sys.executable, "-c", _KEYS], check=True, timeout=300)
