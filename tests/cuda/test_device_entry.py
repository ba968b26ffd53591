"""Plans on a GPU, carried out by machine code, with a GPU of the CPU's memory."""

import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau._core.state import CUDA, GRAD
from flambeau._interception.autocast import settings
from flambeau._kernel.native.plan import Table
from flambeau._kernel.native.site import site
from flambeau._ops.making.generator import draw
from flambeau._ops.plans.device_plans import Memory, _bits
from flambeau._ops.registry import records
from flambeau._tensor import wrap

from . import fake_gpu
from .emulated import Kernel
from .fake_gpu import Array, back, on_gpu

# Other folders may have its name, too: that of a checkout in which other packages are installed.
PACKAGE = os.path.join(os.path.dirname(torch.__file__), "")

pytestmark = pytest.mark.skipif(os.environ.get("FLAMBEAU_NATIVE_ENTRY") == "0", reason="there is no native entry")


def natively(call):
    """The result of a call, and how many launches machine code made for it."""
    before = Kernel.natively
    out = call()
    return out, Kernel.natively - before


@pytest.mark.slow
def test_the_third_call_is_carried_out_by_machine_code(gpu):
    a, b = on_gpu([[1.0, 2.0], [3.0, 4.0]]), on_gpu([[10.0, 20.0], [30.0, 40.0]])
    seen = [natively(lambda: a + b) for _ in range(5)]
    assert [n for _, n in seen][-2:] == [1, 1]
    for out, _ in seen:
        assert out._k == CUDA and out.dtype is torch.float32 and out._array.__class__ is Array
        assert out._array.numpy().tolist() == [[11.0, 22.0], [33.0, 44.0]]
    assert len({id(out._array) for out, _ in seen}) == 5
    c = on_gpu([[5.0, 6.0], [7.0, 8.0]])
    out, n = natively(lambda: torch.add(c, b))
    assert n == 1 and out._array.numpy().tolist() == [[15.0, 26.0], [37.0, 48.0]]
    assert (
        fake_gpu.streams == [gpu.stream()] and gpu.form() != gpu.stream()
    )  # switches are a part of keys, not of the stream


def test_history_is_recorded_by_pattern(gpu):
    x, y = on_gpu([0.5, -0.25], requires_grad=True), on_gpu([2.0, 4.0])
    for _ in range(4):
        out, n = natively(lambda: torch.tanh(x))
        product, m = natively(lambda: x * y)
    assert n == m == 1 and out._k == product._k == CUDA | GRAD
    node = out._edge[0]
    assert node.op.name == "tanh" and node.edges[0][0] is x and node.saved[-1].array is out._array
    assert node.saved[-1].k == CUDA | GRAD
    assert product._edge[0].saved[1] is y and product._edge[0].saved[0] is None
    with torch.no_grad():
        for _ in range(4):
            out, n = natively(lambda: torch.tanh(x))
    assert n == 1 and out._k == CUDA and out._edge is None


def test_each_setting_of_cudnn_has_plans_of_its_own(gpu):
    x, cudnn = on_gpu([1.0, 2.0]), torch.backends.cudnn
    assert [natively(lambda: x + 1)[1] for _ in range(4)][-1] == 1
    cudnn.deterministic = cudnn.deterministic
    assert natively(lambda: x + 1)[1] == 1
    with cudnn.flags(enabled=True, deterministic=True):
        counts = [natively(lambda: x + 1)[1] for _ in range(4)]
        assert counts[0] == 0 and counts[-1] == 1
    assert natively(lambda: x + 1)[1] == 1
    with cudnn.flags(enabled=True, deterministic=True):
        assert natively(lambda: x + 1)[1] == 1


def test_any_of_the_arguments_may_have_history(gpu):
    """Records without a site of their own: the description of a call says which of its tensors require gradients."""
    x, w = on_gpu([[1.0, 2.0]]), on_gpu([3.0, 4.0], requires_grad=True)
    assert [_bits(args) for args in ([x, w], [w, x], [x, [x, w]], [x, 2.0])] == [2, 1, 8, 0]
    with torch.no_grad():
        assert _bits([x, w]) == 0


def test_numbers_and_layouts_have_plans_of_their_own(gpu):
    x = on_gpu(np.arange(6.0).reshape(2, 3))
    for factor in (2.0, 3.0):
        for _ in range(4):
            out, n = natively(lambda: x * factor)
        assert n == 1 and out._array.numpy().tolist() == (np.arange(6.0).reshape(2, 3) * factor).tolist()
    turned = wrap(x._array.transpose(1, 0), torch.float32, CUDA)
    for _ in range(4):
        out, n = natively(lambda: turned * 2.0)
    assert n == 1 and out._array.strides == turned._array.strides and out._array.numpy()[2, 1] == 10.0


def test_a_launch_that_fails_is_left_to_python(gpu):
    x = on_gpu([0.0, 1.0])
    for _ in range(4):
        _, n = natively(lambda: torch.exp(x))
    assert n == 1
    fake_gpu.failing.append(1)
    try:
        out, n = natively(lambda: torch.exp(x))
    finally:
        fake_gpu.failing.clear()
    assert n == 0 and out._array.numpy()[0] == 1.0


def test_other_default_dtypes_have_plans_of_their_own(gpu):
    x = on_gpu([0.0, 1.0])
    for _ in range(4):
        _, n = natively(lambda: torch.exp(x))
    assert n == 1
    torch.set_default_dtype(torch.float64)
    try:
        assert natively(lambda: torch.exp(x))[1] == 0
    finally:
        torch.set_default_dtype(torch.float32)
    assert natively(lambda: torch.exp(x))[1] == 1


def test_what_draws_numbers_is_not_planned_and_draws_no_more_for_it(gpu):
    generator = torch.Generator()
    before = generator.get_state()
    memory = Memory(Table(), ["input"], 1)

    def drawing(x):
        return draw(lambda engine: engine.doubles(3), generator._engine, torch.float64)

    assert drawing(None).shape == (3,) and not torch.equal(generator.get_state(), before)
    before = generator.get_state()
    assert memory.plan(gpu, drawing, [on_gpu([1.0])], False) is None
    assert torch.equal(generator.get_state(), before)


def test_lists_of_tensors_and_none_among_results(gpu):
    def slow(parts, scale=None):
        return parts[0] + parts[1], None, parts[1].exp()

    table = Table()
    memory = Memory(table, ["parts", "scale"], 2)
    call = site(slow, lambda values, out: memory.remember(slow, values, 0), table, ["parts", "scale"])
    a, b = on_gpu([1.0, 2.0]), on_gpu([0.0, 0.0])
    with torch.no_grad():
        for _ in range(4):
            (total, nothing, e), n = natively(lambda: call([a, b]))
    assert n == 2 and nothing is None
    assert back(total).tolist() == [1.0, 2.0] and back(e).tolist() == [1.0, 1.0]


def test_a_product_is_planned_for_streams_with_a_handle_of_their_own(gpu, monkeypatch):
    calls = []
    products = gpu.product
    monkeypatch.setattr(products.handle, "own", {(0, i): 100 + i for i in range(8)})
    monkeypatch.setattr(products.handle, "shared", 7)
    library = SimpleNamespace(cublasSetStream_v2=lambda handle, stream: calls.append((handle.value, stream.value)))
    monkeypatch.setitem(products.__dict__, "library", library)
    assert products.handle() == 7 and calls == [(7, 77)]
    memory = Memory(Table(), ["input"], 1)
    assert memory.plan(gpu, lambda x: x @ x, [on_gpu([[1.0]])], False) is None
    products.handle.own[0, 77] = 177
    assert products.handle() == 177 and calls == [(7, 77)]


def in_python(call):
    """The result of a call, and how many functions of the package it called."""
    seen = []
    sys.setprofile(lambda frame, event, arg: seen.append(frame.f_code.co_filename) if event == "call" else None)
    try:
        out = call()
    finally:
        sys.setprofile(None)
    return out, len([file for file in seen if file.startswith(PACKAGE) and "cuda_layout" not in file])


def test_functions_in_python_are_counted():
    x = torch.ones(2, 2)
    assert (
        in_python(lambda: torch.Tensor.__getitem__.__get__(x)(0))[1] > 0
        and in_python(lambda: np.ones(2).mean())[1] == 0
    )


def test_views_are_made_by_machine_code(gpu):
    values = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    x, leaf = on_gpu(values), on_gpu(values, requires_grad=True)
    for _ in range(5):
        turned, first = in_python(lambda: x.transpose(0, 1))
        pieces, second = in_python(lambda: leaf.split(1))
        wide, third = in_python(lambda: torch.unsqueeze(leaf, 1))
    assert (first, second, third) == (0, 0, 0)
    assert turned._k == CUDA and turned._edge is None and turned._storage is x._storage is not None
    assert turned._array.numpy().tolist() == values.T.tolist() and turned._view[0] is x
    assert [p._array.numpy().tolist() for p in pieces] == [[[0.0, 1.0, 2.0]], [[3.0, 4.0, 5.0]]]
    assert {id(p._edge[0]) for p in pieces} == {id(pieces[0]._edge[0])} and [p._edge[1] for p in pieces] == [0, 1]
    assert wide._k == CUDA | GRAD and wide._edge[0].edges == ((leaf, 0),) and wide.shape == (2, 1, 3)
    turned._array[0] = np.float32(9.0)
    assert x._array.numpy()[:, 0].tolist() == [9.0, 9.0]
    with torch.no_grad():
        for _ in range(5):
            wide, calls = in_python(lambda: torch.unsqueeze(leaf, 1))
        assert calls == 0 and wide.is_cuda and wide.requires_grad and wide.grad_fn is None


def test_records_that_are_planned_by_themselves(gpu):
    """Not only as a part of planned functions: a cast is one."""
    x = on_gpu([[1.5, -2.5]])
    for _ in range(5):
        out, n = natively(lambda: records["to_dtype"](x, torch.float64))
    assert n == 1 and out.dtype is torch.float64 and out._array.numpy().tolist() == [[1.5, -2.5]]


def test_autocast_has_plans_of_its_own(gpu):
    x = on_gpu([[0.5, -0.25]])
    short = records["to_dtype"](x, torch.bfloat16)
    for _ in range(5):
        plain, n = natively(lambda: torch.exp(short))
    assert n == 1 and plain.dtype is torch.bfloat16
    own = settings()
    own.switch("cuda", True)
    try:
        for _ in range(5):
            wide, n = natively(lambda: torch.exp(short))
            total, m = natively(lambda: x + x)
    finally:
        own.switch("cuda", False)
    assert wide.dtype is torch.float32 and n == 2  # a cast, then the function
    np.testing.assert_allclose(wide._array.numpy(), np.exp([[0.5, -0.25]]), rtol=1e-6)
    assert m == 1 and total.dtype is torch.float32
    assert torch.exp(short).dtype is torch.bfloat16


def test_writes_in_place_are_carried_out_and_counted(gpu):
    x, y = on_gpu([1.0, 2.0]), on_gpu([0.5, 0.25])
    for i in range(1, 7):
        out, n = natively(lambda: x.add_(y))
        assert out is x and x._storage.version == i
    assert n == 1 and x._array.numpy().tolist() == [4.0, 3.5]
    for _ in range(6):
        out, n = natively(lambda: x.mul_(x))  # the same memory, element by element
        x._array[:] = np.float32(3.0)
    assert n == 1
    square = on_gpu(np.arange(4.0).reshape(2, 2))
    other, turned = on_gpu(np.ones((2, 2))).transpose(0, 1), square.transpose(0, 1)
    for _ in range(6):
        out, n = natively(lambda: square.add_(other))
    assert n == 1 and square._array.numpy().tolist() == [[6.0, 7.0], [8.0, 9.0]]
    with pytest.raises(RuntimeError, match="single memory location"):  # shared by two operands in different orders
        square.add_(turned)
    assert square._array.numpy().tolist() == [[6.0, 7.0], [8.0, 9.0]]
    leaf = on_gpu([1.0], requires_grad=True)
    for _ in range(4):
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            leaf.add_(1.0)
        with torch.no_grad():
            out, n = natively(lambda: leaf.add_(1.0))
    assert n == 1 and leaf._array.numpy().tolist() == [5.0]
    made = leaf * 2.0
    for _ in range(4):
        before = made._edge[0]
        made.mul_(2.0)
        assert made._edge[0] is not before  # history is Python's


def test_a_function_that_writes_to_buffers(gpu):
    """Batch norm: one plan has the result, its node, and the running statistics."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(4, 3, 5)).astype(np.float32)
    x, weight, bias = on_gpu(values, requires_grad=True), on_gpu(np.ones(3), True), on_gpu(np.zeros(3), True)
    mean, variance = on_gpu(np.zeros(3)), on_gpu(np.ones(3))
    here = [torch.zeros(3), torch.ones(3)]
    for i in range(1, 7):
        out, n = natively(lambda: F.batch_norm(x, mean, variance, weight, bias, True, 0.1, 1e-5))
        wanted = F.batch_norm(torch.from_numpy(values), *here, torch.ones(3), torch.zeros(3), True, 0.1, 1e-5)
        np.testing.assert_allclose(out._array.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(mean._array.numpy(), here[0].numpy(), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(variance._array.numpy(), here[1].numpy(), rtol=1e-4)
        assert mean._storage.version == variance._storage.version == i
        assert type(out.grad_fn).__name__ == "NativeBatchNormBackward0"
    assert n >= 3


class OutOfMemory(MemoryError):
    """As CuPy's allocator raises it."""


OutOfMemory.__module__ = "cupy.cuda.memory"


@pytest.mark.parametrize("call", [lambda x: x + 1, lambda x: F.softmax(x, 0), lambda x: x.double()])
def test_a_gpu_without_memory_is_told_from_a_computer_without(gpu, monkeypatch, call):
    def refused(*args):
        raise OutOfMemory("Out of memory allocating 512 bytes")

    x = on_gpu([1.0, 2.0])
    monkeypatch.setattr(gpu, "empty", refused)
    with pytest.raises(torch.cuda.OutOfMemoryError, match="CUDA out of memory"):
        call(x)


def test_many_launches_share_one_piece_of_memory_on_the_way(gpu):
    def slow(x):
        for _ in range(50):
            x = (x * 2.0).tanh()
        return x

    table = Table()
    memory = Memory(table, ["x"], 1)
    call = site(slow, lambda values, out: memory.remember(slow, values, 0), table, ["x"])
    x = on_gpu([0.5, -0.25])
    with torch.no_grad():
        for _ in range(4):
            before = Array.made
            out, n = natively(lambda: call(x))
    assert n == 100 and Array.made - before == 2  # the result, and two places that take turns
    torch.testing.assert_close(back(out), slow(torch.tensor([0.5, -0.25])))
    plan = table.kept[0][2][0]
    assert plan.counts == [2, 1, 100] and plan.keep[-2].args[0] == (1024,)
