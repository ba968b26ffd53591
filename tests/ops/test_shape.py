"""Copies in another arrangement and joins: values against NumPy, derivatives, promotion, errors, meta tensors."""

import itertools

import numpy as np
import pytest

import flambeau as torch
from flambeau.autograd import gradcheck, gradgradcheck


def numbers(*shape):
    return torch.arange(float(np.prod(shape)), dtype=torch.float64).reshape(shape)


# name, function, shapes of the operands, NumPy reference
OPS = {
    "flip": (lambda x: x.flip(0, -1), [(2, 3)], lambda a: a[::-1, ::-1]),
    "fliplr": (torch.fliplr, [(2, 3)], np.fliplr),
    "roll": (lambda x: x.roll((1, -2), (0, 1)), [(2, 5)], lambda a: np.roll(a, (1, -2), (0, 1))),
    "roll_flat": (lambda x: x.roll(2), [(2, 3)], lambda a: np.roll(a, 2)),
    "rot90": (lambda x: x.rot90(3, (0, 1)), [(2, 3)], lambda a: np.rot90(a, 3)),
    "repeat": (lambda x: x.repeat(2, 1, 3), [(2, 2)], lambda a: np.tile(a, (2, 1, 3))),
    "tile": (lambda x: x.tile(2), [(2, 2)], lambda a: np.tile(a, 2)),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, 1), [(2, 2)], lambda a: np.repeat(a, 2, 1)),
    "repeat_interleave_counts": (
        lambda x: x.repeat_interleave(torch.tensor([1, 0, 2]), 0), [(3, 2)], lambda a: np.repeat(a, [1, 0, 2], 0)
    ),
    "tril": (lambda x: x.tril(-1), [(2, 3, 3)], lambda a: np.tril(a, -1)),
    "triu": (lambda x: x.triu(1), [(3, 4)], lambda a: np.triu(a, 1)),
    "diag_of_vector": (lambda x: x.diag(1), [(3,)], lambda a: np.diag(a, 1)),
    "diag_of_matrix": (lambda x: x.diag(-1), [(3, 4)], lambda a: np.diag(a, -1)),
    "diagflat": (lambda x: torch.diagflat(x), [(2, 2)], np.diagflat),
    "diag_embed": (lambda x: torch.diag_embed(x), [(2, 2)], lambda a: np.stack([np.diag(r) for r in a])),
    "trace": (torch.trace, [(3, 4)], np.trace),
    "pad": (lambda x: torch.constant_pad_nd(x, (1, 2, 0, 1), 0), [(2, 3)], lambda a: np.pad(a, ((0, 1), (1, 2)))),
    "crop": (lambda x: torch.constant_pad_nd(x, (-1, 0)), [(2, 3)], lambda a: a[:, 1:]),
    "cat": (lambda x, y: torch.cat([x, y], 1), [(2, 3), (2, 1)], lambda a, b: np.concatenate([a, b], 1)),
    "stack": (lambda x, y: torch.stack([x, y], -1), [(2, 3), (2, 3)], lambda a, b: np.stack([a, b], -1)),
    "hstack": (lambda x, y: torch.hstack([x, y]), [(2,), (3,)], lambda a, b: np.hstack([a, b])),
    "vstack": (lambda x, y: torch.vstack([x, y]), [(3,), (3,)], lambda a, b: np.vstack([a, b])),
    "dstack": (lambda x, y: torch.dstack([x, y]), [(3,), (3,)], lambda a, b: np.dstack([a, b])),
    "column_stack": (lambda x, y: torch.column_stack([x, y]), [(3,), (3, 2)], lambda a, b: np.column_stack([a, b])),
    "block_diag": (
        lambda x, y: torch.block_diag(x, y), [(1, 2), (2, 2)],
        lambda a, b: np.block([[a, np.zeros((1, 2))], [np.zeros((2, 2)), b]]),
    ),
    "meshgrid": (
        lambda x, y: torch.meshgrid(x, y, indexing="xy")[1], [(2,), (3,)], lambda a, b: np.meshgrid(a, b, indexing="xy")[1]
    ),
    "cartesian_prod": (
        torch.cartesian_prod, [(2,), (2,)], lambda a, b: np.stack([g.ravel() for g in np.meshgrid(a, b, indexing="ij")], 1)
    ),
    "combinations": (torch.combinations, [(3,)], lambda a: a[[[0, 1], [0, 2], [1, 2]]]),
}  # fmt: skip


@pytest.mark.parametrize("name", OPS)
def test_values_and_derivatives(name):
    function, shapes, reference = OPS[name]
    given = [numbers(*shape) + i for i, shape in enumerate(shapes)]
    made = function(*given)
    assert np.array_equal(made.numpy(), reference(*[x.numpy() for x in given]))
    for x in given:
        x.requires_grad_()
    assert gradcheck(function, tuple(given))
    assert gradgradcheck(function, tuple(given))


@pytest.mark.parametrize("name", [n for n in OPS if n not in ("repeat_interleave_counts", "combinations")])
def test_meta(name):
    function, shapes, _ = OPS[name]
    real = function(*[numbers(*shape) for shape in shapes])
    made = function(*[torch.empty(shape, dtype=torch.float64, device="meta") for shape in shapes])
    assert made.is_meta and made.shape == real.shape and made.dtype is real.dtype


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.bool, torch.int32, torch.complex64])
def test_other_dtypes(dtype):
    x = numbers(3, 4).to(dtype)
    for function in (lambda x: x.tril(), lambda x: x.flip(0), lambda x: torch.cat([x, x]), lambda x: x.repeat(2, 1)):
        assert function(x).dtype is dtype
        assert np.array_equal(function(x).to(torch.complex64).numpy(), function(x.to(torch.complex64)).numpy())


def test_cat_promotes_and_skips_empty_vectors():
    made = torch.cat([torch.zeros(1, dtype=torch.int64), torch.ones(1)])
    assert made.dtype is torch.float32 and made.tolist() == [0, 1]
    empty, full = torch.zeros(0).requires_grad_(), numbers(2, 2).requires_grad_()
    torch.cat([empty, full], 1).sum().backward()
    assert empty.grad.shape == (0,) and full.grad.tolist() == [[1, 1], [1, 1]]
    out = torch.empty(0)
    assert torch.cat([torch.ones(1)], out=out) is out and out.tolist() == [1]
    x = torch.ones(2)
    with pytest.raises(RuntimeError, match="unsupported operation"):
        torch.cat([x, x], out=x)


ERRORS = [
    (lambda: torch.cat([]), ValueError, "non-empty"),
    (lambda: torch.cat([torch.zeros(2, 3), torch.zeros(3, 3)], 1), RuntimeError, "must match except in dimension"),
    (lambda: torch.cat([torch.zeros(2), torch.zeros(2, 2)]), RuntimeError, "same number of dimensions"),
    (lambda: torch.cat([torch.tensor(1.0)]), RuntimeError, "zero-dimensional"),
    (lambda: torch.cat([torch.zeros(2)], 3), IndexError, "Dimension out of range"),
    (lambda: torch.cat(torch.zeros(2)), TypeError, "tuple of Tensors"),
    (lambda: torch.cat([torch.zeros(2), 1]), TypeError, "Tensor"),
    (lambda: torch.stack([torch.zeros(2), torch.zeros(3)]), RuntimeError, "equal size"),
    (lambda: torch.stack([]), RuntimeError, "non-empty"),
    (lambda: torch.zeros(2).roll((1, 1), (0,)), RuntimeError, "must align"),
    (lambda: torch.zeros(2, 2).flip(0, 0), RuntimeError, "multiple times"),
    (lambda: torch.zeros(2, 2).repeat(2), RuntimeError, "can not be smaller"),
    (lambda: torch.zeros(2).tril(), RuntimeError, "at least 2 dimensions"),
    (lambda: torch.zeros(2, 2, 2).diag(), RuntimeError, "1D or 2D"),
    (lambda: torch.zeros(2).repeat_interleave(torch.tensor([1, -1])), RuntimeError, "negative"),
    (lambda: torch.zeros(2).repeat_interleave(torch.tensor([1, 1, 1])), RuntimeError, "same size"),
    (lambda: torch.constant_pad_nd(torch.zeros(2), (-3, 0)), RuntimeError, "negative output size"),
    (lambda: torch.nn.functional.one_hot(torch.tensor([-1])), RuntimeError, "non-negative"),
    (lambda: torch.nn.functional.one_hot(torch.tensor([3]), 2), RuntimeError, "smaller than num_classes"),
    (lambda: torch.meshgrid(torch.zeros(2, 2), indexing="ij"), RuntimeError, "0D or 1D"),
    (lambda: torch.block_diag(torch.zeros(1, 1, 1)), RuntimeError, "2 or fewer"),
]


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors(number):
    function, kind, text = ERRORS[number]
    with pytest.raises(kind, match=text):
        function()


def test_one_hot():
    x = torch.nn.functional.one_hot(torch.tensor([[0, 2]]), 4)
    assert x.tolist() == [[[1, 0, 0, 0], [0, 0, 1, 0]]] and x.dtype is torch.int64
    assert torch.nn.functional.one_hot(torch.zeros(0, dtype=torch.int64), 3).shape == (0, 3)


def test_meshgrid_warns_without_indexing():
    with pytest.warns(UserWarning, match="indexing"):
        assert torch.meshgrid(torch.arange(2), torch.arange(3))[0].shape == (2, 3)


def test_repeats_do_not_share_memory():
    x = numbers(2)
    for made in (x.repeat(1), x.repeat_interleave(1), x.repeat(2, 1), x.tile(1), torch.cat([x])):
        assert not np.shares_memory(made.numpy(), x.numpy())
    assert x.repeat(0).shape == (0,) and x.repeat(2, 0).shape == (2, 0)


@pytest.mark.parametrize("again", [False, True])
def test_combinations_in_order(again):
    choose = itertools.combinations_with_replacement if again else itertools.combinations
    for n in range(6):
        for r in range(1, 5):
            made = torch.combinations(torch.arange(n), r, with_replacement=again)
            assert made.shape[1] == r and made.tolist() == [list(row) for row in choose(range(n), r)]


def test_flip_and_rot90_refuse():
    with pytest.raises(IndexError, match="Dimension out of range"):
        torch.rot90(torch.zeros(2, 2, 2), 1, (0, 3))
    with pytest.raises(RuntimeError, match="dims to be different, but got dim0 = 0 and dim1 = -3"):
        torch.rot90(torch.zeros(2, 2, 2), 1, (0, -3))
    x = torch.ones(2, 2)
    with pytest.raises(TypeError, match="missing 1 required positional"):
        x.flip()
    with pytest.raises(IndexError, match="out of range"):
        x.rot90(1, [0, -3])


@pytest.mark.parametrize("shape", [(1,), (1, 3), (3, 1), (1, 1, 2)])
def test_copies_of_one_element_are_copies(shape):
    for copied in (
        lambda x: x.repeat_interleave(2, 0), lambda x: x.repeat_interleave(1, -1), lambda x: x.repeat_interleave(3),
        lambda x: x.flip(0), lambda x: x.flip(tuple(range(x.dim()))), lambda x: x.repeat(*[2] * x.dim()),
        lambda x: x.tile(1), lambda x: x.roll(1, 0),
    ):  # fmt: skip
        x = torch.zeros(shape)
        made = copied(x)
        made.view(-1)[0] = 1
        assert made.is_contiguous() and made.sum() == 1 and x.sum() == 0
