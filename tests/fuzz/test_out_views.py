"""`out=` of every sample call, given views: elements go where the view says, and nothing beside them changes."""

import ast
import importlib.util
from pathlib import Path

import numpy as np
import pytest

import flambeau as torch

# by its file: with tests/ on the path, tests/onnx would be taken for the package onnx
_spec = importlib.util.spec_from_file_location("samples", Path(__file__).resolve().parent.parent / "samples.py")
samples = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(samples)

MORE = [
    "torch.arange(12)", "torch.arange(0.0, 6.0, 0.5)", "torch.range(0, 11)", "torch.linspace(0, 1, 12)", "torch.logspace(0, 2, 12)",
    "torch.eye(3, 4)", "torch.zeros(3, 4)", "torch.ones(3, 4)", "torch.full((3, 4), 2.5)", "torch.addmm(q, q, q)", "torch.mm(x, m)",
    "torch.bmm(b, c)", "torch.cat([x, y])", "torch.stack([x, y])", "torch.gather(x, 1, l)", "torch.cumsum(x, 1)", "torch.sum(x, 1)",
    "torch.matmul(x, m)", "torch.sort(x)", "torch.topk(x, 2)", "torch.max(x, 1)", "torch.take(x, l)", "torch.index_select(x, 0, i)",
    "torch.where(mask, x, y)", "torch.clamp(x, 0, 1)", "torch.linalg.inv(q)", "torch.fft.fft(x)", "torch.tril(x)", "torch.bernoulli(p.clamp(0, 1).round())",
]  # fmt: skip


def _calls():
    """(text, tree) of sample calls of functions that could take `out=`."""
    for text in dict.fromkeys([text for family in samples.SAMPLES.values() for text in family] + MORE):
        tree = ast.parse(text)
        if len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr) and isinstance(tree.body[0].value, ast.Call):
            called = ast.unparse(tree.body[0].value.func)
            if called.startswith("torch.") and not called.startswith("torch.nn") and "rand" not in called:
                yield text, tree.body[0].value


@pytest.fixture(scope="module")
def space():
    made = {name: t.detach() for name, t in samples.operands(torch).items()}
    return {**made, "torch": torch, "dev": "cpu", "ones": torch.ones, "F": torch.nn.functional}


def _evaluated(call, space, **more):
    extra = [ast.keyword(name, ast.Name(name, ast.Load())) for name in more]
    tree = ast.Expression(ast.Call(call.func, call.args, [*call.keywords, *extra]))
    return eval(compile(ast.fix_missing_locations(tree), "sample", "eval"), {**space, **more})


_PLAIN = {
    torch.float32,
    torch.float64,
    torch.int64,
    torch.int32,
    torch.bool,
    torch.complex64,
    torch.bfloat16,
    torch.uint8,
}
_MARK = 77


def _views(like):
    """(name, memory, view of it with the shape of `like`), strided in different ways."""
    shape = tuple(like.shape)
    room = (
        torch.full((*[2 * n + 1 for n in shape], 3), _MARK, dtype=like.dtype) if like.dtype is not torch.bool else None
    )
    if room is None:
        room = torch.ones((*[2 * n + 1 for n in shape], 3), dtype=torch.bool)
    yield "every other", room, room[(*[slice(1, None, 2)] * len(shape), 1)]
    if shape:
        room = torch.full((*shape[::-1], 2), 0, dtype=like.dtype)
        yield "transposed", room, room[..., 1].permute(*range(len(shape) - 1, -1, -1))
        room = torch.full((shape[0] + 2, *shape[1:]), 0, dtype=like.dtype)
        yield "inner", room, room[1:-1]


def _equal(a, b):
    return np.array_equal(a.to(torch.complex128).numpy(), b.to(torch.complex128).numpy(), equal_nan=True)


CALLS = list(_calls())


@pytest.mark.parametrize("text, call", CALLS, ids=[text for text, _ in CALLS])
@pytest.mark.filterwarnings("ignore")
def test_out(text, call, space):
    expected = _evaluated(call, space)
    several = isinstance(expected, (tuple, list))
    results = list(expected) if several else [expected]
    if not all(isinstance(r, torch.Tensor) and r.dtype in _PLAIN and r.layout is torch.strided for r in results):
        return
    for kinds in zip(*[list(_views(r)) for r in results]):
        given = [view for _, _, view in kinds]
        before = [room.clone() for _, room, _ in kinds]
        try:
            made = _evaluated(call, space, out=tuple(given) if several else given[0])
        except (TypeError, NotImplementedError):
            return  # takes no `out=`
        for (name, room, view), old, result, got in zip(kinds, before, results, made if several else [made]):
            assert got is view, name
            assert tuple(view.shape) == tuple(result.shape) and _equal(view, result), name
            touched = torch.zeros(room.shape, dtype=torch.bool)
            touched.as_strided(view.shape, view.stride(), view.storage_offset()).fill_(True)
            assert _equal(
                torch.where(touched, torch.zeros_like(room), room), torch.where(touched, torch.zeros_like(old), old)
            ), name


_GEOMETRIES = {
    "same": (0, (3, 4), (4, 1)), "later": (1, (3, 4), (4, 1)), "transposed": (0, (3, 4), (1, 3)), "spread": (0, (3, 4), (8, 2)),
    "beside": (12, (3, 4), (4, 1)), "one place": (0, (3, 4), (0, 0)), "one row": (0, (3, 4), (0, 1)),
}  # fmt: skip
_SHARING = [
    "exp(x)", "neg(x)", "add(x, y)", "mul(x, x)", "sub(y, x)", "pow(x, 2)", "atan2(x, y)", "where(y > 0, x, y)", "cumsum(x, 0)", "cumsum(x, 1)",
    "cumprod(x, 1)", "softmax(x, 1)", "log_softmax(x, 0)", "tril(x)", "triu(x)", "matmul(x, y[:, :4].T @ y)", "mm(x, torch.eye(4))", "lerp(x, y, 0.5)",
    "addcmul(y, x, x)", "clamp(x, 0, 1)", "gather(x, 1, torch.tensor([[3, 2, 1, 0]] * 3))", "index_select(x, 0, torch.tensor([2, 1, 0]))",
    "cat([x[:1], x[1:]])", "addmm(x, y, torch.eye(4))", "nan_to_num(x)", "round(x)", "logcumsumexp(x, 0)", "renorm(x, 2, 0, 1.0)", "take(x, torch.arange(11, -1, -1).view(3, 4))",
]  # fmt: skip


@pytest.mark.parametrize("where", _GEOMETRIES)
@pytest.mark.parametrize("call", _SHARING)
@pytest.mark.filterwarnings("ignore")
def test_out_over_an_operand(call, where):
    """The result is what it would be elsewhere, or an error says that the memory overlaps."""
    memory = torch.linspace(0.5, 3.0, 40)
    operands = {"x": memory[:12].view(3, 4), "y": torch.linspace(1.0, 2.0, 12).view(3, 4), "torch": torch}
    expected = eval(f"torch.{call}", {**operands, "x": operands["x"].clone()})
    offset, shape, strides = _GEOMETRIES[where]
    out = memory.as_strided(shape, strides, offset)
    before = memory.clone()
    try:
        eval(f"torch.{call[:-1]}, out=out)", {**operands, "out": out})
    except RuntimeError as error:
        assert "overlap" in str(error) or "unsupported operation" in str(error)
        assert torch.equal(memory, before)
        return
    assert "one" not in where and torch.equal(out, expected)
    beside = torch.ones(40, dtype=torch.bool)
    beside.as_strided(shape, strides, offset).fill_(False)
    assert torch.equal(memory[beside], before[beside])
