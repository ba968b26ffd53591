"""Input that is wrong in every way: it raises PyTorch's exception, quickly, and changes no memory. What could crash the
interpreter runs in a process of its own."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import Placed, placed, same, seeds, shapes, tensor, values

import flambeau as torch

HERE = Path(__file__).parent
LIMIT = 2**63 - 1


def run(*arguments: str) -> subprocess.CompletedProcess:
    paths = os.pathsep.join([str(Path(torch.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": paths},
    )


@pytest.mark.slow
def test_hostile_calls():
    done = run(str(HERE / "hostile_runner.py"))
    lines = done.stdout.splitlines()
    assert lines and lines[-1] == "end", f"died with {done.returncode} in: {lines[-1:]}\n{done.stderr[-2000:]}"
    wrong = [line for line in lines[:-1] if not line.endswith("\tok")]
    assert not wrong, "\n".join(wrong)


# -- indices -----------------------------------------------------------------------------------------------------

WRITES = {
    "scatter_": lambda x, d, i: x.scatter_(d, i, 1.0),
    "scatter_ tensor": lambda x, d, i: x.scatter_(d, i, torch.ones(i.shape)),
    "scatter_add_": lambda x, d, i: x.scatter_add_(d, i, torch.ones(i.shape)),
    "scatter_reduce_": lambda x, d, i: x.scatter_reduce_(d, i, torch.ones(i.shape), "amax"),
    "index_fill_": lambda x, d, i: x.index_fill_(d, i.reshape(-1), 1.0),
    "index_add_": lambda x, d, i: x.index_add_(d, i.reshape(-1), rows_like(x, d, i)),
    "index_copy_": lambda x, d, i: x.index_copy_(d, i.reshape(-1), rows_like(x, d, i)),
    "index_reduce_": lambda x, d, i: x.index_reduce_(d, i.reshape(-1), rows_like(x, d, i), "prod"),
    "setitem": lambda x, d, i: x.__setitem__((slice(None),) * d + (i.reshape(-1),), 1.0),
    "index_put_": lambda x, d, i: x.transpose(0, d).index_put_((i.reshape(-1),), torch.tensor(1.0), accumulate=True),
    "put_": lambda x, d, i: x.put_(torch.where(i.abs() > 50, i, 0), torch.ones(i.shape)),
}
READS = {
    "gather": lambda x, d, i: x.gather(d, i),
    "index_select": lambda x, d, i: x.index_select(d, i.reshape(-1)),
    "getitem": lambda x, d, i: x[(slice(None),) * d + (i.reshape(-1),)],
    "take": lambda x, d, i: x.take(torch.where(i.abs() > 50, i, 0)),
    "take_along_dim": lambda x, d, i: torch.take_along_dim(x, i, d),
    "embedding": lambda x, d, i: torch.nn.functional.embedding(i, x.reshape(x.shape[0], -1)[: x.shape[d]]),
}


def rows_like(x, d, i):
    shape = list(x.shape)
    shape[d] = i.numel()
    return torch.ones(shape)


@given(st.sampled_from(sorted(WRITES) + sorted(READS)), st.data())
def test_indices_out_of_range(name, data):
    """One bad index among good ones, at either end or absurdly far, into tensors of every layout."""
    shape = tuple(data.draw(st.integers(1, 4)) for _ in range(data.draw(st.integers(1, 3))))
    d = data.draw(st.integers(0, len(shape) - 1))
    n = shape[d]
    x = data.draw(placed(shape, "float32", overlap=False))
    index = np.random.default_rng(data.draw(seeds)).integers(0, n, shape)
    far = st.one_of(st.sampled_from([LIMIT, -LIMIT - 1, 2**62, -(2**62), 2**61, 2**32, 2**31]), st.integers(100, 2**40))
    index.reshape(-1)[data.draw(st.integers(0, index.size - 1))] = data.draw(far)
    with pytest.raises((IndexError, RuntimeError)):
        (WRITES.get(name) or READS[name])(x.tensor, d, tensor(index))
    x.check(name)


@given(st.data())
def test_as_strided_stays_inside(data):
    """Whatever sizes, strides and offset: an error, or a view of the storage's own elements."""
    memory = values(0, (30,), "float32")
    x = torch.from_numpy(memory[5:25])
    numbers = st.one_of(st.integers(-2, 12), st.sampled_from([2**31, 2**32, 2**61, 2**62, LIMIT, -LIMIT - 1]))
    ndim = data.draw(st.integers(0, 3))
    size, stride = ([data.draw(numbers) for _ in range(ndim)] for _ in range(2))
    offset = data.draw(st.one_of(st.none(), numbers))
    try:
        view = x.as_strided(size, stride, offset)
    except (RuntimeError, ValueError, TypeError, OverflowError):
        return
    if view.numel():
        reach = sum((n - 1) * s for n, s in zip(size, stride))
        first = offset if offset is not None else 0
        assert first >= 0 and first + reach < 20
        assert np.isin(view.numpy().reshape(-1)[:1000], memory[5:25]).all()


# -- memory that must not be written -----------------------------------------------------------------------------


def in_place_calls(x):
    """Every method that ends in an underscore with every plausible set of arguments."""
    one = torch.ones(x.shape, dtype=x.dtype)
    index = torch.zeros(x.shape, dtype=torch.int64)
    mask = torch.ones(x.shape, dtype=torch.bool)
    row = torch.zeros(1, dtype=torch.int64)
    part = one[:1]
    sets = [(), (1,), (one,), (1, 2), (one, one), (0, index, one), (0, index, 1), (0, row, part), (0, row, 1), (mask, 1),
            (mask, one), (row, part[0, :1]), (0, row, part, "prod"), (0, index, one, "sum"), (one, 0.5), (one.t(), one),
            ((row,), one[0, 0]), (0,), (0, 1), (one @ one.t(), one), (2, 0, 1.0)]  # fmt: skip
    for name in sorted(dir(type(x))):
        if (
            name.endswith("_")
            and not name.startswith("_")
            and name not in ("requires_grad_", "share_memory_", "rename_")
        ):
            for arguments in sets:
                yield name, arguments


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_read_only_memory_is_never_written(dtype):
    """A tensor over read-only memory of NumPy refuses every method that writes."""
    memory = np.arange(12, dtype=dtype) + 1
    memory.flags.writeable = False
    before, refused = memory.copy(), set()
    for name, arguments in in_place_calls(torch.from_numpy(memory).view(3, 4)):
        x = torch.from_numpy(memory).view(3, 4)
        try:
            getattr(x, name)(*arguments)
        except Exception as error:
            if "read-only" in str(error):
                refused.add(name)
        assert np.array_equal(memory, before), (name, arguments)
    assert len(refused) > 40 if dtype == "int64" else len(refused) > 80
    for write in (
        "x[0] = 1",
        "x[x > 0] = 1",
        "x += 1",
        "torch.add(x, 1, out=x)",
        "x[:, 1:] *= 2",
        "torch.sum(x, 0, out=x[0])",
    ):
        with pytest.raises((RuntimeError, ValueError)):
            exec(write, {"x": torch.from_numpy(memory).view(3, 4), "torch": torch})
        assert np.array_equal(memory, before), write
    bytes_ = bytes(range(8))
    with pytest.raises((RuntimeError, ValueError)):
        torch.frombuffer(bytes_, dtype=torch.uint8).fill_(9)
    assert bytes_ == bytes(range(8))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_neighbours_are_never_written():
    """Methods that write into a part of a buffer, right or wrong arguments alike, leave the rest as it was."""
    for strides in ((4, 1), (1, 3), (9, 2)):
        x = Placed((3, 4), strides, 7, 7, "float32", 0)
        for name, arguments in in_place_calls(x.tensor):
            if name in ("resize_", "resize_as_", "set_", "as_strided_", "t_", "transpose_", "swapaxes_", "swapdims_",
                        "squeeze_", "unsqueeze_"):  # fmt: skip
                continue
            y = Placed((3, 4), strides, 7, 7, "float32", 0)
            try:
                getattr(y.tensor, name)(*arguments)
            except Exception:
                y.check(f"{name}{arguments} raised after a write")
            y.array[...] = 0
            torch.from_numpy(y.buffer).as_strided((3, 4), strides, 7).zero_()
            y.check(f"{name}{arguments} wrote elsewhere")


# -- integers ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_integers_at_the_edge(dtype):
    """The smallest integer divided by -1, and shifts by more bits than there are, neither trap nor crash."""
    code = f"""
import flambeau as torch
d = torch.{dtype}
least = torch.iinfo(d).min
x = torch.full((70,), least, dtype=d)
for y in (torch.full((70,), -1, dtype=d), torch.tensor(-1, dtype=d), -1):
    x // y, x % y, torch.fmod(x, y), torch.remainder(x, y)
    for mode in ("trunc", "floor"):
        torch.div(x, y, rounding_mode=mode)
assert (x % -1 == 0).all() and (torch.fmod(x, -1) == 0).all()
for count in (0, 8, 16, 32, 63, 64, 100):
    x << min(count, 127), x >> min(count, 127)
x << torch.full((70,), -5, dtype=d), x >> torch.full((70,), -5, dtype=d)
assert (-x == x).all() and (x.abs() == x).all()
torch.gcd(x, x), torch.lcm(x, x), x * x, x.pow(3), torch.cumprod(x, 0), x.prod()
print("end")
"""
    done = run("-c", code)
    assert done.stdout == "end\n", (done.returncode, done.stderr[-1500:])


# -- threads and processes ---------------------------------------------------------------------------------------

_WORK = """
import os, signal, sys, threading
import flambeau as torch

def work(seed, results):
    x = torch.arange(600.0).reshape(20, 30) / (seed + 1)
    w = torch.full((30, 8), 0.01 * (seed + 1), requires_grad=True)
    total = 0.0
    for step in range(30):
        loss = torch.tanh(x @ w).square().mean() + torch.sort(x.reshape(-1))[0][:9].sum() * 0
        loss.backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
        w.grad = None
        big = torch.ones(200_000) * seed
        total += float(loss) + float(big.sum()) * 1e-9 + float(x[x > 1].sum()) * 1e-9
        torch.rand(1000)
        x.clone().index_add_(0, torch.tensor([0, 0]), torch.ones(2, 30))
    results[seed] = total
"""


@pytest.mark.slow
def test_threads():
    done = run("-c", _WORK + """
alone, together = {}, {}
for seed in range(8):
    work(seed, alone)
threads = [threading.Thread(target=work, args=(seed, together)) for seed in range(8)]
for t in threads: t.start()
for t in threads: t.join()
assert alone == together, (alone, together)
print("end")
""")  # fmt: skip
    assert done.stdout == "end\n", (done.returncode, done.stderr[-1500:])


@pytest.mark.slow
def test_fork_among_threads():
    """A child of a process whose threads are at work computes, large operations and gradients included."""
    done = run("-W", "ignore", "-c", _WORK + """
torch.ones(500_000).add(1).sum()  # starts the pool
results = {}
threads = [threading.Thread(target=work, args=(seed, results)) for seed in range(3)]
for t in threads: t.start()
children = []
for n in range(3):
    child = os.fork()
    if not child:
        signal.alarm(30)  # a child that hangs fails, and does not stay behind
        inner = {}
        torch.rand(3)
        work(5, inner)
        big = torch.ones(400_000, requires_grad=True)
        (big * 2).sum().backward()
        os._exit(0 if float(big.grad.sum()) == 800_000 and 5 in inner else 3)
    children.append(child)
codes = [os.waitstatus_to_exitcode(os.waitpid(c, 0)[1]) for c in children]
for t in threads: t.join()
assert codes == [0, 0, 0], codes
print("end")
""")  # fmt: skip
    assert done.stdout == "end\n", (done.returncode, done.stderr[-1500:])


def test_one_graph_from_many_threads():
    """Threads that walk graphs over one leaf at once add up all their gradients."""
    leaf = torch.ones(1000, requires_grad=True)
    grads = []

    def walk():
        for _ in range(20):
            grads.append(torch.autograd.grad((leaf * 2).sum(), leaf)[0])

    threads = [threading.Thread(target=walk) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(grads) == 160
    for g in grads:
        same(g, np.full(1000, 2.0))


# -- pickles -----------------------------------------------------------------------------------------------------


@given(seeds, st.integers(0, 2000), st.integers(0, 255))
def test_damaged_pickles(seed, place, byte):
    """A pickle with one wrong byte gives an error or a tensor, and never one that reaches outside of its storage."""
    import pickle

    data = bytearray(pickle.dumps(tensor(values(seed, (3, 4), "float32"))[1:, ::2]))
    if place >= len(data) or data[place : place + 1] in (b"c", b"R", b"\x93"):
        return
    data[place] = byte
    try:
        found = pickle.loads(bytes(data))
    except Exception:
        return
    if isinstance(found, torch.Tensor):
        found.sum()


@given(shapes(0, 3), seeds)
def test_graph_parts_do_not_deepcopy(shape, seed):
    import copy

    x = tensor(values(seed, shape, "float64")).requires_grad_()
    with pytest.raises(RuntimeError):
        copy.deepcopy(x * 2)
    assert copy.deepcopy(x).requires_grad
