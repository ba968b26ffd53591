"""Tensors that our own functions read as numbers (an index, a factor, a length) or look at to refuse them: each run of a program does."""

import pytest

import flambeau as torch
from flambeau._compile.steps import Call
from flambeau._ops.records.refusals import Refusal
from flambeau.nn import functional as F

X = torch.arange(12.0).reshape(3, 4) / 8 - 0.5


def into(x, i, v):
    out = x.clone()
    out[i] = v
    return out


# a function of X and a tensor, and several such tensors
NUMBERS = {
    "a row": (lambda x, i: x[i], (1, 1, 2, 0)),
    "a row, and on": (lambda x, i: x[i] * 2, (1, 1, 2, 0)),
    "a column": (lambda x, i: x[:, i], (1, 1, 3, 0)),
    "an element": (lambda x, i: x[i, 1:], (1, 1, 2)),
    "a slice": (lambda x, i: x[i:], (1, 1, 2)),
    "a written row": (lambda x, i: into(x, i, 7.0), (1, 1, 2)),
    "a written row of a tensor": (lambda x, i: into(x, i, x[0]), (1, 1, 2)),
    "narrow": (lambda x, i: x.narrow(0, i, 1), (1, 1, 2)),
    "select": (lambda x, i: x.select(0, i), (1, 1, 2)),
    "roll": (lambda x, i: x.roll(i), (1, 1, 2)),
    "repeat": (lambda x, n: x.repeat(n, 1), (1, 1, 2)),
    "repeat_interleave": (lambda x, n: torch.repeat_interleave(x, n), (1, 1, 2)),
    "tensor_split": (lambda x, n: torch.tensor_split(x, n), (1, 1, 2)),
    "arange": (lambda x, n: x.sum() + torch.arange(n), (1, 1, 2)),
    "full": (lambda x, s: torch.full((2,), s), (1.5, 1.5, 2.5)),
    "full_like": (lambda x, s: torch.full_like(x, s), (1.5, 1.5, 2.5)),
    "tensor": (lambda x, s: torch.tensor([s, 1.0]), (1.5, 1.5, 2.5)),
    "alpha": (lambda x, s: torch.add(x, x, alpha=s), (1.5, 1.5, 2.5)),
    "beta": (lambda x, s: torch.addmm(x, x, x.T @ x, beta=s), (1.5, 1.5, 2.5)),
    "value": (lambda x, s: torch.addcmul(x, x, x, value=s), (1.5, 1.5, 2.5)),
    "a list of numbers": (lambda x, s: torch._foreach_addcdiv([x], [x], [x + 2], s[None]), (1.5, 1.5, 2.5)),
    "a scale": (lambda x, s: torch.fake_quantize_per_tensor_affine(x, s, 0, -128, 127), (0.5, 0.5, 0.25)),
    "bins": (lambda x, s: torch.histc(x.detach() * s, 4), (1.0, 1.0, 2.0)),
}  # fmt: skip


def result(function, x, number, needs):
    x = x.clone().requires_grad_(needs)
    out = function(x, torch.tensor(number))
    out = out if isinstance(out, (tuple, list)) else [out]
    ends = [t.sum() for t in out if t.requires_grad]
    return [*out, *(torch.autograd.grad(sum(ends), x) if ends else [])]


@pytest.mark.parametrize("needs", [False, True], ids=["values", "gradients"])
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers(name, needs):
    function, numbers = NUMBERS[name]
    compiled = torch.compile(function)
    for number in numbers:
        expected, found = [result(f, X, number, needs) for f in (function, compiled)]
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_a_row_that_a_tensor_names_is_a_view():
    x = torch.zeros(3, 4)
    compiled = torch.compile(lambda x, i: x[i], fullgraph=True)
    for i in (1, 1, 2, 0):
        compiled(x, torch.tensor(i)).add_(i + 1.0)
    assert x[:, 0].tolist() == [1.0, 4.0, 3.0]


MATRIX = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
LABELS, INDEX = torch.tensor([0, 1, 2]), torch.tensor([0, 2, 1])
ENTROPY = lambda p: F.binary_cross_entropy(p, torch.ones(3, 4))
# a function, arguments that it takes, and others that it refuses; whether kernels find that out
REFUSED = {
    "inv": (torch.linalg.inv, [MATRIX], [MATRIX * 0], True),
    "inv of several": (torch.linalg.inv, [torch.stack([MATRIX] * 3)], [torch.stack([MATRIX, MATRIX * 0, MATRIX])], True),
    "solve": (torch.linalg.solve, [MATRIX, MATRIX], [torch.ones(2, 2), MATRIX], True),
    "cholesky": (torch.linalg.cholesky, [MATRIX], [-MATRIX], True),
    "lu_factor": (lambda a: torch.linalg.lu_factor(a)[0], [MATRIX], [MATRIX * 0], True),
    "ldl_factor": (lambda a: torch.linalg.ldl_factor(a)[0], [torch.eye(3)], [torch.zeros(3, 3)], False),
    "binary_cross_entropy": (ENTROPY, [X.sigmoid()], [X * 9], True),
    "binary_cross_entropy of NaN": (ENTROPY, [X.sigmoid()], [X * float("nan")], True),
    "binary_cross_entropy, short": (lambda p: ENTROPY(p.float()), [X.sigmoid().bfloat16()], [X.bfloat16()], True),
    "gaussian_nll_loss": (lambda v: F.gaussian_nll_loss(X, X + 1, v), [X.exp()], [X], False),
    "cross_entropy": (lambda x, t: F.cross_entropy(x.bfloat16(), t).float(), [X, LABELS], [X, LABELS + 3], True),
    "multi_margin_loss": (F.multi_margin_loss, [X, LABELS], [X, LABELS + 3], True),
    "quantile": (torch.quantile, [X, torch.tensor(0.5)], [X, torch.tensor(1.5)], False),
    "index_reduce": (lambda x, i: x.index_reduce(0, i, x, "prod"), [X, INDEX], [X, INDEX + 1], True),
    "floor_divide": (lambda i, n: i // n, [INDEX, INDEX + 1], [INDEX, INDEX], True),
    "remainder": (lambda i, n: i % n, [INDEX, torch.tensor(2)], [INDEX, torch.tensor(0)], False),
}  # fmt: skip


def looks_of_python(compiled):
    (entry,) = compiled._region.entries
    parts = entry.program.forward_program._lowered.parts
    return [part for part in parts if isinstance(part, Call) and isinstance(part.what.op, Refusal)]


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    function, good, bad, native = REFUSED[name]
    compiled = torch.compile(function, fullgraph=True)
    for _ in range(3):
        torch.testing.assert_close(compiled(*good), function(*good), rtol=0, atol=0)
    with pytest.raises(Exception) as expected:
        function(*bad)
    for _ in range(2):
        with pytest.raises(type(expected.value)) as found:
            compiled(*bad)
        assert str(found.value).split("\n")[0] == str(expected.value).split("\n")[0]
    torch.testing.assert_close(compiled(*good), function(*good), rtol=0, atol=0)
    assert not native or not looks_of_python(compiled)


def test_refused_in_a_whole_step():
    weight = torch.ones(4, requires_grad=True)
    optimizer = torch.optim.SGD([weight], 0.1)

    @torch.compile(fullgraph=True)
    def step(x):
        optimizer.zero_grad()
        F.binary_cross_entropy(x * weight, torch.ones(3, 4)).backward()
        optimizer.step()

    for _ in range(3):
        step(torch.full((3, 4), 0.5))
    before = weight.tolist()
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        step(torch.full((3, 4), 5.0))
    assert weight.tolist() == before


def third(function, x):
    x = x.detach().requires_grad_()
    g = function(x)
    for _ in range(3):
        (g,) = torch.autograd.grad(g.sum(), x, create_graph=True)
    return g.detach()


@pytest.mark.parametrize("function", [lambda a: a.prod(1), lambda a: a.cumprod(1), lambda a: torch.det(a @ a.T)])
def test_third_derivatives(function):
    compiled = torch.compile(lambda x: third(function, x))
    for x in (X + 1, X + 1, X + 2):
        torch.testing.assert_close(compiled(x), third(function, x))


def test_what_our_functions_read_is_not_what_is_returned():
    @torch.compile
    def scaled(x, s):
        return torch._foreach_addcdiv([x], [x], [x + 2], s)

    for factor in (1.0, 1.0, 3.0):
        (found,) = scaled(X, torch.tensor([factor]))
        torch.testing.assert_close(found, X + factor * X / (X + 2))


def test_meta_tensors_have_no_elements():
    with pytest.raises(NotImplementedError, match="no data"):
        torch.empty((), device="meta")._array[()]
