"""`out=` and in-place forms at sizes where results are made in the given memory at once: values, aliasing, layouts, memory."""

import subprocess
import sys

import numpy as np
import pytest

import flambeau as torch

N = 1 << 19  # large enough for all cores and for results made in place


def numbers(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


UNARY = ["exp", "neg", "sqrt", "abs", "square", "sigmoid", "nan_to_num", "round"]
BINARY = ["add", "sub", "mul", "div", "maximum", "atan2", "lt", "eq", "pow", "remainder", "clamp_min", "fmod"]


@pytest.mark.parametrize("size", [0, 1, 17, N + 3])
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, size):
    x = numbers(size)
    function = getattr(torch, name)
    expected = function(x)
    out = torch.empty_like(expected)
    version = out._version
    assert function(x, out=out) is out
    assert torch.equal(out.nan_to_num(), expected.nan_to_num()) and out._version == version + 1


@pytest.mark.parametrize("size", [0, 1, 17, N + 3])
@pytest.mark.parametrize("name", BINARY)
def test_binary(name, size):
    x, y = numbers(size), numbers(size, seed=1)
    function = getattr(torch, name)
    for other in (y, y[:1].sum(), y.double()) if name in ("maximum", "atan2") else (y, 2, y[:1].sum(), y.double()):
        expected = function(x, other)
        out = torch.empty_like(expected)
        assert function(x, other, out=out) is out
        assert torch.equal(out.nan_to_num(), expected.nan_to_num())


def test_numbers_where_there_are_none():
    with pytest.raises(TypeError):
        torch.maximum(numbers(4), 2, out=torch.empty(4))
    with pytest.raises(TypeError):
        numbers(4).atan2_(2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32, torch.complex64])
def test_dtypes(dtype):
    x, y = (numbers(2, N // 2, seed=s).mul(9).to(dtype) for s in (0, 1))
    out = torch.empty_like(x)
    torch.mul(x, y[:1], out=out)
    assert torch.equal(out, x * y[:1])


def test_function_with_several_operands():
    x, y, z = (numbers(N, seed=s) for s in range(3))
    out = torch.empty(N)
    torch.addcmul(x, y, z, value=0.5, out=out)
    assert torch.equal(out, torch.addcmul(x, y, z, value=0.5))
    torch.lerp(x, y, 0.25, out=out)
    assert torch.equal(out, torch.lerp(x, y, 0.25))
    torch.where(x > 0, y, z, out=out)
    assert torch.equal(out, torch.where(x > 0, y, z))


@pytest.mark.parametrize("size", [16, N])
def test_out_is_an_operand(size):
    x, y = numbers(size), numbers(size, seed=1)
    expected = x - y
    a = x.clone()
    assert torch.sub(a, y, out=a) is a and torch.equal(a, expected)
    b = y.clone()
    torch.sub(x, b, out=b)
    assert torch.equal(b, expected)
    c = x.clone()
    torch.exp(c.view(-1), out=c)
    assert torch.equal(c, x.exp())
    square = numbers(1024, 1024)  # not pointwise: the operand is read after parts of the result are there
    expected = square @ square
    torch.mm(square, square, out=square)
    assert torch.equal(square, expected)


@pytest.mark.parametrize("size", [4, 1024])
def test_strided_out(size):
    x, y = numbers(size, size), numbers(size, seed=1)
    expected = x + y
    for out in (torch.empty(size, size).t(), torch.empty(size, 2 * size)[:, ::2], torch.empty(3, size, size)[1]):
        strides = out.stride()
        torch.add(x, y, out=out)
        assert torch.equal(out, expected) and out.stride() == strides
        torch.mm(x, x, out=out)
        assert torch.equal(out, x @ x)
        torch.cumsum(x, 1, out=out)
        assert torch.equal(out, x.cumsum(1))


@pytest.mark.parametrize("size", [16, N])
def test_other_dtype(size):
    x = numbers(size)
    wide = torch.empty(size, dtype=torch.float64)
    torch.exp(x, out=wide)
    assert torch.equal(wide, x.exp().double())
    torch.add(torch.arange(size), 1, out=wide)
    assert torch.equal(wide, torch.arange(1, size + 1).double())
    torch.gt(x, 0, out=wide)
    assert torch.equal(wide, (x > 0).double())
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.exp(x, out=torch.empty(size, dtype=torch.int64))


@pytest.mark.parametrize("size", [16, N])
def test_partial_overlap(size):
    x = numbers(size + 1)
    for run in (
        lambda: torch.exp(x[:-1], out=x[1:]),
        lambda: torch.add(x[1:], 1, out=x[:-1]),
        lambda: x[1:].add_(x[:-1]),
    ):
        with pytest.raises(RuntimeError, match="single memory location"):
            run()
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.add(x[1:], 1, out=torch.empty(1).expand(size))
    memory = np.arange(size + 1, dtype=np.float32)  # two tensors that do not know of each other
    a, b = torch.from_numpy(memory[:-1]), torch.from_numpy(memory[1:])
    torch.add(a, 1, out=b)
    assert torch.equal(b, torch.arange(1, size + 1).float())
    matrix = numbers(4, size)
    expected = matrix[:, :-1] + matrix[:, 1:]
    matrix[:, 1:].add_(matrix[:, :-1])
    assert torch.equal(matrix[:, 1:], expected)


def test_resizes_and_warns():
    out = torch.empty(0)
    torch.exp(numbers(N), out=out)
    assert out.shape == (N,)
    with pytest.warns(UserWarning, match="resized"):
        torch.exp(numbers(4, 4), out=out)
    row = torch.empty(2, 3)
    with pytest.warns(UserWarning, match="resized"):  # a smaller result is not repeated
        torch.exp(numbers(3), out=row)
    assert row.shape == (3,)


@pytest.mark.parametrize("size", [16, N])
def test_gradients_are_refused(size):
    x = numbers(size).requires_grad_()
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        torch.exp(x, out=torch.empty(size))
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        torch.exp(x.detach(), out=x)
    with torch.no_grad():
        out = torch.empty(size)
        assert torch.equal(torch.exp(x, out=out), x.exp())


def test_other_operations():
    x, y = numbers(8, 512, 256), numbers(8, 256, 512, seed=1)
    flat = x[0].expand(4, 512, 256)
    cases = [
        (lambda **o: torch.matmul(x, y, **o), torch.empty(8, 512, 512)),
        (lambda **o: torch.bmm(x, y, **o), torch.empty(8, 512, 512)),
        (lambda **o: torch.matmul(x, y[0], **o), torch.empty(8, 512, 512)),
        (lambda **o: torch.addmm(y[0].sum(0), x[0], y[0], **o), torch.empty(512, 512)),
        (lambda **o: torch.softmax(x, -1, **o), torch.empty_like(x)),
        (lambda **o: torch.cat([x, x], 1, **o), torch.empty(8, 1024, 256)),
        (lambda **o: torch.index_select(x, 1, torch.arange(511, -1, -1), **o), torch.empty_like(x)),
        (lambda **o: torch.sum(flat, 0, **o), torch.empty(512, 256)),
    ]
    for run, out in cases:
        out.fill_(float("nan"))
        assert run(out=out) is out
        assert torch.equal(out, run())


@pytest.mark.parametrize("order", ["C", "F"])
def test_copies(order):
    source = np.random.default_rng(0).standard_normal((700, 800))
    x = torch.from_numpy(np.asarray(source, order=order))
    for dtype in (torch.float64, torch.float32, torch.float16, torch.int32, torch.bool, torch.complex64):
        for out in (torch.empty(700, 800, dtype=dtype), torch.empty(800, 700, dtype=dtype).t()):
            assert torch.equal(out.copy_(x), x.to(dtype))
    assert torch.equal(torch.empty(700, 800).copy_(x[0]), x[0].float().expand(700, 800))


MEMORY = """
import resource, flambeau as torch
x, y = torch.ones(1 << 24), torch.ones(1 << 24)
o = torch.zeros(1 << 24)
o.add_(1)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for run in (lambda: torch.add(x, y, out=o), lambda: torch.exp(x, out=o), lambda: torch.pow(x, 2, out=o),
            lambda: x.add_(y), lambda: x.mul_(2), lambda: x.exp_(), lambda: x.view(-1, 4).add_(y[:4]),
            lambda: torch.clamp(x, 0, 1, out=x), lambda: o.copy_(x)):
    run()
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert used < 32 << 10, used  # KiB; one result has 64 MiB
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has other units elsewhere")
def test_no_temporary():
    subprocess.run([sys.executable, "-c", MEMORY], check=True, timeout=120)


@pytest.mark.parametrize(
    "name", ["neg", "floor", "ceil", "trunc", "round", "frac", "sign", "sgn", "abs", "conj_physical", "nan_to_num"]
)
def test_functions_that_keep_the_dtype_take_no_other(name):
    x, wide = torch.tensor([1.5, -2.25]), torch.zeros(2, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="Found dtype Double but expected Float"):
        getattr(torch, name)(x, out=wide)
    assert wide.tolist() == [0, 0]
    assert torch.equal(getattr(torch, name)(x, out=torch.empty(0)), getattr(torch, name)(x))


@pytest.mark.parametrize("name", ["signbit", "isposinf", "isneginf"])
def test_tests_of_numbers_go_to_bools_only(name):
    with pytest.raises(RuntimeError, match=f"{name} does not support non-boolean outputs"):
        getattr(torch, name)(torch.ones(2), out=torch.zeros(2))


def test_other_functions_cast_their_results():
    assert torch.sqrt(torch.tensor([4.0]), out=torch.empty(1, dtype=torch.float64)).item() == 2
    assert torch.abs(torch.tensor([3 + 4j]), out=torch.empty(1, dtype=torch.float64)).item() == 5


@pytest.mark.parametrize(
    "call",
    [
        lambda x, out: torch.mm(x, x, out=out), lambda x, out: torch.matmul(x, x, out=out), lambda x, out: torch.argmax(x, 0, out=out),
        lambda x, out: torch.linalg.inv(x, out=out), lambda x, out: torch.softmax(x, 0, out=out), lambda x, out: torch.amax(x, 0, out=out),
        lambda x, out: torch.nonzero(x, out=out), lambda x, out: torch.index_add(x, 0, torch.tensor([0]), x[:1], out=out),
        lambda x, out: torch.tril(x, out=out), lambda x, out: torch.where(x > 0, x, x, out=out), lambda x, out: torch.take(x, torch.tensor([0]), out=out),
        lambda x, out: torch.index_select(x, 0, torch.tensor([0]), out=out), lambda x, out: torch.nn.functional.linear(x, x, out=out),
        lambda x, out: torch.linalg.norm(x, out=out),
    ],
)  # fmt: skip
def test_functions_that_take_only_their_own_dtype(call):
    x = torch.eye(2) + 1
    with pytest.raises(RuntimeError, match=r"Expected out tensor to have dtype .* but got float64 instead"):
        call(x, torch.empty(0, dtype=torch.float64))


def test_sums_are_computed_in_the_dtype_of_out():
    x = torch.tensor([1.5, 1.5])
    out = torch.empty((), dtype=torch.int32)
    torch.sum(x, 0, out=out)
    assert out.item() == 2  # the elements are cast first
    assert torch.cumsum(x, 0, out=torch.empty(2, dtype=torch.int64)).tolist() == [1, 2]
    assert torch.prod(x, 0, out=torch.empty((), dtype=torch.float64)).item() == 2.25


OWN_WORDS = [
    (lambda x, out: torch.any(x, out=out), "any only supports bool tensor for result, got: Double"),
    (lambda x, out: torch.all(x, 0, out=out), "all only supports bool tensor for result, got: Double"),
    (lambda x, out: torch.clamp(x, 0, 1, out=out), "Found dtype Double but expected Float"),
    (lambda x, out: torch.clamp_min(x, 0, out=out), "Found dtype Double but expected Float"),
    (lambda x, out: torch.clamp_max(x, max=1, out=out), "Found dtype Double but expected Float"),
    (lambda x, out: torch._C._nn.gelu(x, out=out), "Found dtype Double but expected Float"),
    (lambda x, out: torch._C._nn.softplus(x, out=out), "Found dtype Double but expected Float"),
    (lambda x, out: torch.vdot(x, x, out=out), "result dtype Double does not match input dtype Float"),
    (lambda x, out: torch.linalg.vecdot(x, x, out=out), "Expected out of dtypeFloat but found Double"),
    (lambda x, out: torch.heaviside(x, x, out=out), "not yet implemented for tensors with different dtypes"),
]


@pytest.mark.parametrize("call, words", OWN_WORDS)
def test_functions_that_want_the_results_dtype(call, words):
    with pytest.raises(RuntimeError, match=words):
        call(torch.tensor([1.0, 2.0]), torch.empty(0, dtype=torch.float64))


def test_other_dtypes_that_such_functions_take():
    with pytest.raises(
        RuntimeError, match="float_power has dtype Float but the operation's result requires dtype Double"
    ):
        torch.float_power(torch.ones(2), 2, out=torch.empty(2))
    assert torch.clamp(torch.ones(2), max=torch.zeros(2), out=torch.ones(2, dtype=torch.float64)).tolist() == [0, 0]
    out = torch.empty(0, dtype=torch.uint8)
    assert torch.any(torch.tensor([0, 1]), 0, out=out).item() == 1
    assert torch.all(torch.tensor([2, 1], dtype=torch.uint8), out=torch.empty((), dtype=torch.bool)).item() is True


@pytest.mark.parametrize("size", [70_000, 100_000, 300_000])
@pytest.mark.parametrize("name", ["exp", "neg"])
def test_results_across_their_operand(name, size):
    for shift in (1, 8, 5000):
        for _ in range(4):  # the second time there may be a plan
            x = torch.arange(float(size)) % 11
            expected = getattr(torch, name)(x[shift:].clone())
            getattr(torch, name)(torch.from_numpy(x.numpy()[:])[shift:], out=x[:-shift])
            assert torch.equal(x[:-shift], expected)
            y = torch.arange(float(size)) % 11
            expected = getattr(torch, name)(y[:-shift].clone())
            getattr(torch, name)(torch.from_numpy(y.numpy()[:])[:-shift], out=y[shift:])
            assert torch.equal(y[shift:], expected)


def test_a_tensor_is_filled_with_one_of_its_elements():
    x = torch.arange(1.0, 7.0)
    assert x[1:4].fill_(x[2]).tolist() == [3, 3, 3] and x.fill_(x[5]).tolist() == [6] * 6


@pytest.mark.parametrize("name", ["sum", "prod", "cumsum", "cumprod"])
def test_a_dtype_and_an_out_of_another_one_are_refused(name):
    function, x = getattr(torch, name), torch.ones(3)
    out = torch.empty(0, dtype=torch.float64)
    assert function(x, 0, dtype=torch.float64, out=out) is out
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        function(x, 0, dtype=torch.float32, out=out)


OPERANDS = {
    "plain": lambda: (torch.rand(4, 6), torch.rand(4, 6)),
    "turned": lambda: (torch.rand(6, 4).t(), torch.rand(4, 6)),
    "broadcast": lambda: (torch.rand(4, 6), torch.rand(6)),
}
OUTS = {
    "dense": lambda: torch.full((4, 6), 7.0),
    "turned": lambda: torch.full((6, 4), 7.0).t(),
    "apart": lambda: torch.full((4, 12), 7.0)[:, ::2],
    "part": lambda: torch.full((9, 6), 7.0)[2:6],
}
CALLS = {
    "mul": lambda a, b, out: torch.mul(a, b, out=out),
    "exp": lambda a, b, out: torch.exp(a, out=out),
    "lerp": lambda a, b, out: torch.lerp(a, a + b, 0.3, out=out),
    "cumsum": lambda a, b, out: torch.cumsum(a, 1, out=out),
    "clamp": lambda a, b, out: torch.clamp(a, 0.2, 0.7, out=out),
    "softmax": lambda a, b, out: torch.softmax(a, 1, out=out),
    "where": lambda a, b, out: torch.where(a > b, a, b, out=out),
    "mm": lambda a, b, out: torch.mm(a, torch.ones(6, 6), out=out),
    "cat": lambda a, b, out: torch.cat([a[:2], a[1:3]], out=out),
    "gather": lambda a, b, out: torch.gather(a, 1, torch.arange(24).reshape(4, 6) % 5, out=out),
}


@pytest.mark.parametrize("out", OUTS)
@pytest.mark.parametrize("operands", OPERANDS)
@pytest.mark.parametrize("call", CALLS)
def test_calls_that_come_again_write_the_same(call, operands, out):
    function, target = CALLS[call], OUTS[out]()
    whole = target._base if target._base is not None else target
    for number in range(8):  # planned from some call on
        a, b = OPERANDS[operands]()
        wanted = function(a, b, torch.empty(0))
        outside = torch.ones_like(whole, dtype=torch.bool)
        outside.as_strided(target.shape, target.stride(), target.storage_offset()).fill_(False)
        version, kept = target._version, whole.clone()
        assert function(a, b, target) is target
        assert torch.equal(target, wanted) and target._version == version + 1, number
        assert torch.equal(whole[outside], kept[outside])


@pytest.mark.parametrize("call", ["mul", "exp", "cumsum", "softmax", "where"])
def test_operands_may_be_the_result_also_in_calls_that_come_again(call):
    function = CALLS[call]
    for number in range(8):
        a, b = OPERANDS["plain"]()
        wanted = function(a, b, torch.empty(0))
        target = torch.empty(4, 6)
        function(a, b, target)
        assert function(a, b, a) is a and torch.equal(a, wanted), number
        if call == "mul":
            a, shared = OPERANDS["plain"]()[0], torch.rand(5, 6)
            with pytest.raises(RuntimeError, match="single memory location"):
                torch.mul(a, shared[1:], out=shared[:4])


def test_what_a_result_must_not_be_is_refused_in_calls_that_come_again():
    a, b = OPERANDS["plain"]()
    frozen, leaf, base = np.zeros((4, 6), np.float32), torch.zeros(4, 6, requires_grad=True), torch.zeros(5, 6)
    frozen.flags.writeable = False
    with pytest.warns(UserWarning, match="not writable"):
        fixed = torch.from_numpy(frozen)
    with torch.inference_mode():
        inferred = torch.zeros(4, 6)
    for _ in range(8):
        for function in (CALLS["mul"], CALLS["cumsum"]):
            function(a, b, torch.empty(4, 6))
            function(a, b, base[1:])
            with pytest.raises(RuntimeError, match="read-only"):
                function(a, b, fixed)
            with pytest.raises(RuntimeError, match="automatic differentiation"):
                function(a, b, leaf)
            with pytest.raises(RuntimeError):
                function(a, b, leaf[:])
            with pytest.raises(RuntimeError, match="automatic differentiation"):
                function(leaf, b, torch.empty(4, 6))
            with pytest.raises(RuntimeError):
                function(a, b, torch.empty(1, 6).expand(4, 6))
            with torch.no_grad():
                assert function(a, b, leaf) is leaf
            with pytest.raises(RuntimeError, match="nference"):
                function(a, b, inferred)
            small = torch.empty(2)
            with pytest.warns(UserWarning, match="resized"):
                assert function(a, b, small).shape == (4, 6)
    assert torch.equal(leaf, torch.cumsum(a, 1))


def test_a_write_to_a_part_of_what_has_history_counts_for_it():
    w = torch.rand(4, 6, requires_grad=True)
    for _ in range(8):
        CALLS["mul"](torch.rand(4, 6), torch.rand(4, 6), torch.empty(5, 6)[1:])
        h = w * 2
        with pytest.raises(RuntimeError):
            CALLS["mul"](torch.rand(4, 6), torch.rand(4, 6), h[:])
        (h * h).sum().backward()
        h = w * 2
        y = h * h
        with torch.no_grad():
            CALLS["mul"](torch.rand(4, 6), torch.rand(4, 6), h[:])
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_parts_are_changed_in_place_by_items():
    for _ in range(8):
        x = torch.arange(12.0).reshape(4, 3)
        before = x._version
        x[1] *= 2
        x[:, 0] += x[:, 1]
        x[..., 2] -= 1
        assert x.tolist() == [[1, 1, 1], [14, 8, 9], [13, 7, 7], [19, 10, 10]] and x._version == before + 6
        w = torch.ones(3, requires_grad=True)
        y = w * 2
        y[1] *= w[0]
        y.sum().backward()
        assert w.grad.tolist() == [4, 2, 2]
        with pytest.raises(RuntimeError):
            w[0] += 1


@pytest.mark.parametrize("key", [1, -1, (1,), (1, ...), (..., 1)])
def test_single_elements_are_changed_in_place_by_items(key):
    for _ in range(8):
        x = torch.arange(3)
        x[key] += 5
        x[key] = x[key]
        assert x.sum() == 8 and x[key] == (7 if key == -1 else 6) and x._version == 3


def test_results_of_other_layouts():
    x, a, b = torch.eye(3).to_sparse_csr(), torch.rand(3, 4), torch.rand(4, 3)
    for _ in range(3):
        target = torch.zeros(3, 3).to_sparse_csr()
        assert torch.sparse.sampled_addmm(x, a, b, out=target) is target
        assert torch.equal(target.to_dense(), torch.sparse.sampled_addmm(x, a, b).to_dense())
