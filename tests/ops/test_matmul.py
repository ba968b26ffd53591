"""Products: ranks, broadcasting, derivatives of both orders, errors, and the forms built on them."""

import itertools

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau._ops.linear.einsum import _recipe
from flambeau.autograd import gradcheck, gradgradcheck

rng = np.random.default_rng(0)


def normal(*shape, complex=False, grad=False):
    made = rng.standard_normal(shape)
    if complex:
        made = made + 1j * rng.standard_normal(shape)
    return torch.from_numpy(np.asarray(made)).requires_grad_(grad)


def close(made, expected, tolerance=1e-10):
    np.testing.assert_allclose(made.detach().numpy(), expected, rtol=tolerance, atol=tolerance)


RANKS = [
    ((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 5)), ((3, 4), (4, 5)), ((2, 3, 4), (4,)), ((4,), (2, 4, 5)),
    ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (3, 4, 5)), ((0, 4), (4, 2)),
    ((3, 0), (0, 2)), ((2, 3, 0), (0, 5)),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), RANKS)
def test_matmul_of_all_ranks(left, right):
    a, b = normal(*left, grad=True), normal(*right, grad=True)
    close(a @ b, np.matmul(a.detach().numpy(), b.detach().numpy()))
    if 0 not in left + right:
        assert gradcheck(torch.matmul, (a, b)) and gradgradcheck(torch.matmul, (a, b))
    else:
        (a @ b).sum().backward()
        assert a.grad.shape == a.shape and b.grad.shape == b.shape


def test_complex_gradients():
    a, b, c = (
        normal(2, 3, complex=True, grad=True),
        normal(3, 4, complex=True, grad=True),
        normal(4, complex=True, grad=True),
    )
    assert gradcheck(torch.matmul, (a, b))
    assert gradcheck(lambda x, w, v: F.linear(x, w.t(), v), (a, b, c))
    assert gradcheck(lambda v, x, y: torch.addmm(v, x, y, alpha=2 + 1j, beta=3j), (c, a, b))
    assert gradcheck(lambda x, y: torch.vdot(x.reshape(-1)[:3], y.reshape(-1)[:3]), (a, b))


@pytest.mark.parametrize("name", ["addmm", "addmv", "addr", "addbmm", "baddbmm"])
def test_added_products(name):
    shapes = {
        "addmm": [(3, 5), (3, 4), (4, 5)], "addmv": [(3,), (3, 4), (4,)], "addr": [(3, 4), (3,), (4,)],
        "addbmm": [(3, 5), (2, 3, 4), (2, 4, 5)], "baddbmm": [(2, 3, 5), (2, 3, 4), (2, 4, 5)],
    }[name]  # fmt: skip
    c, a, b = (normal(*s, grad=True) for s in shapes)
    function = getattr(torch, name)
    x, y, z = (t.detach().numpy() for t in (a, b, c))
    product = np.outer(x, y) if name == "addr" else np.matmul(x, y)
    if name == "addbmm":
        product = product.sum(0)
    close(function(c, a, b, beta=0.5, alpha=2.0), 0.5 * z + 2 * product)
    assert gradcheck(lambda c, a, b: function(c, a, b, beta=0.5, alpha=2.0), (c, a, b))
    assert gradgradcheck(lambda c, a, b: function(c, a, b, beta=0.5, alpha=2.0), (c, a, b))
    hidden = torch.full(shapes[0], float("nan"), dtype=torch.float64)
    close(function(hidden, a.detach(), b.detach(), beta=0), product)
    written = c.detach().clone()
    assert getattr(written, name + "_")(a.detach(), b.detach()) is written
    close(written, z + product)
    target = torch.empty(0, dtype=torch.float64)
    assert function(c.detach(), a.detach(), b.detach(), out=target) is target
    close(target, z + product)


def test_linear_and_bilinear():
    x, w, b = normal(2, 5, 3, grad=True), normal(4, 3, grad=True), normal(4, grad=True)
    close(F.linear(x, w, b), x.detach().numpy() @ w.detach().numpy().T + b.detach().numpy())
    assert gradcheck(F.linear, (x, w, b)) and gradgradcheck(F.linear, (x, w, b))
    left, right, weight = normal(2, 3, grad=True), normal(2, 4, grad=True), normal(5, 3, 4, grad=True)
    expected = np.einsum("bi,oij,bj->bo", *(t.detach().numpy() for t in (left, weight, right)))
    close(F.bilinear(left, right, weight), expected)
    assert gradcheck(F.bilinear, (left, right, weight)) and gradgradcheck(F.bilinear, (left, right, weight))


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    "m, k, n", [(2, 2, 8), (5, 7, 9), (33, 16, 31), (40, 300, 17), (1, 5, 9), (4, 1, 8), (4, 9, 3)]
)
@pytest.mark.parametrize("layout", ["plain", "turned", "sparse"])
def test_affine_maps_give_the_same_with_and_without_a_plan(dtype, m, k, n, layout):
    generator = np.random.default_rng(m * n)
    x, weight, bias, g = (generator.standard_normal(s) for s in ((m, k), (n, k), (n,), (m, n)))
    if layout == "turned":
        x, weight = np.asfortranarray(x), np.asfortranarray(weight)
    elif layout == "sparse":
        x, bias = np.repeat(x, 2, 1)[:, ::2], np.repeat(bias, 3)[::3]
    given = [torch.from_numpy(a).to(dtype).requires_grad_() for a in (x, weight, bias)]
    tolerance = 1e-4 if dtype is torch.float32 else 1e-12
    for wanted in ((True, True, True), (False, True, True), (True, False, False)):
        for _ in range(4):
            leaves = [t if want else t.detach() for t, want in zip(given, wanted)]
            made = torch.nn.functional.linear(*leaves)
            found = torch.autograd.grad(made, [t for t in leaves if t.requires_grad], torch.from_numpy(g).to(dtype))
            expected = [a for a, want in zip((g @ weight, g.T @ x, g.sum(0)), wanted) if want]
            for have, value in zip((made.detach(), *found), (x @ weight.T + bias, *expected), strict=True):
                np.testing.assert_allclose(have.numpy(), value, rtol=tolerance, atol=tolerance)


def test_the_gradient_of_a_weight_is_row_major():
    x, w = torch.ones(8, 3), torch.ones(4, 3).requires_grad_()
    F.linear(x, w).sum().backward()
    assert w.grad.is_contiguous() and w.grad.tolist() == [[8.0] * 3] * 4


EQUATIONS = [
    ("ij,jk", (2, 3), (3, 4)), ("ij,jk->ki", (2, 3), (3, 4)), ("ij->ji", (2, 3)), ("ij->", (2, 3)), ("ii->i", (3, 3)),
    ("ii", (3, 3)), ("i,j->ij", (2,), (3,)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)), ("...ij,...jk->...ik", (5, 2, 3), (3, 4)),
    ("bi,oij,bj->bo", (2, 3), (4, 3, 5), (2, 5)), ("...->...", (2, 3)), ("ij,ij->ij", (2, 3), (2, 3)),
    ("iij,jk->ik", (3, 3, 2), (2, 4)), ("ab,cd->dcba", (2, 3), (4, 5)), ("i...->...", (2, 3, 4)),
    ("ij,jk,kl,lm->im", (2, 9), (9, 3), (3, 7), (7, 4)), (" i j , j k -> i k ", (2, 3), (3, 4)),
]  # fmt: skip


@pytest.mark.parametrize("case", EQUATIONS, ids=lambda c: c[0])
def test_einsum(case):
    equation, *shapes = case
    operands = [normal(*s, grad=True) for s in shapes]
    close(torch.einsum(equation, *operands), np.einsum(equation, *(t.detach().numpy() for t in operands)))
    assert gradcheck(lambda *ts: torch.einsum(equation, *ts), tuple(operands))


def test_einsum_broadcasts_an_extent_of_one():
    a, b = normal(2, 3), normal(1, 4)
    close(torch.einsum("ij,jk->ik", a, b), a.numpy().sum(1)[:, None] * b.numpy())
    close(torch.einsum("...i,...i->...", normal(1, 3) * 0 + 1, torch.ones(5, 3, dtype=torch.float64)), np.full(5, 3.0))


def test_einsum_with_lists_of_numbers():
    a, b = normal(2, 3, 4), normal(4, 5)
    close(torch.einsum(a, [..., 1], b, [1, 2], [..., 2]), a.numpy() @ b.numpy())


def test_einsum_knows_an_equation_that_comes_again():
    for equation, *shapes in EQUATIONS:
        for _ in range(4):  # from the second call on there may be a plan
            operands = [normal(*s) for s in shapes]
            close(torch.einsum("".join(list(equation)), *operands), np.einsum(equation, *(t.numpy() for t in operands)))
    before = _recipe.cache_info().misses
    torch.einsum(EQUATIONS[0][0], *[normal(*s) for s in EQUATIONS[0][1:]])
    assert _recipe.cache_info().misses == before


def test_einsum_refuses():
    z = torch.zeros
    for equation, operands in [
        ("ij,jk", [z(2, 3)]), ("ij", [z(2, 3), z(3)]), ("ij", [z(2)]), ("i.j", [z(2, 3)]), ("i#", [z(2, 3)]),
        ("ij->iji", [z(2, 3)]), ("ij->k", [z(2, 3)]), ("ij,jk", [z(2, 3), z(4, 5)]), ("ii", [z(2, 3)]),
        ("i...j...", [z(2, 3)]), ("ij->i->j", [z(2, 3)]),
    ]:  # fmt: skip
        with pytest.raises(RuntimeError):
            torch.einsum(equation, *operands)
    with pytest.raises(ValueError):
        torch.einsum("i")


def test_tensordot_kron_inner_outer_and_chains():
    a, b = normal(2, 3, 4), normal(4, 3, 5)
    close(torch.tensordot(a, b, ([1, 2], [1, 0])), np.tensordot(a.numpy(), b.numpy(), ([1, 2], [1, 0])))
    close(torch.tensordot(a, b, 1), np.tensordot(a.numpy(), b.numpy(), 1))
    close(torch.kron(a, normal(2, 2) * 0 + 1), np.kron(a.numpy(), np.ones((2, 2))))
    close(torch.inner(a, normal(5, 4) * 0 + 1), np.inner(a.numpy(), np.ones((5, 4))))
    chain = [normal(n, m) for n, m in itertools.pairwise((2, 30, 3, 20, 4))]
    expected = np.linalg.multi_dot([t.numpy() for t in chain])
    close(torch.linalg.multi_dot(chain), expected)
    close(torch.chain_matmul(*chain), expected)
    close(torch.linalg.multi_dot([chain[0][0], *chain[1:3], chain[3][:, 0]]), expected[0, 0])
    x, y = normal(3, 4, complex=True), normal(4, complex=True)
    close(torch.linalg.vecdot(x, y), (x.numpy().conj() * y.numpy()).sum(-1))


def test_integers_wrap_and_halves_are_rounded_once():
    a = torch.tensor([[100, 100]], dtype=torch.int8)
    assert (a @ a.t()).tolist() == [[(20000 + 128) % 256 - 128]]
    for d in (torch.float16, torch.bfloat16):
        x, y = normal(7, 90).to(d), normal(90, 9).to(d)
        assert ((x @ y) == (x.double() @ y.double()).to(d)).double().mean() > 0.97
        assert (x @ y).dtype is d
    assert (torch.ones(2, 3, dtype=torch.int64) @ torch.ones(3, dtype=torch.int64)).tolist() == [3, 3]


def test_infinities_do_not_warn():
    a = torch.tensor([[float("inf"), 1.0], [0.0, 1.0]])
    assert torch.isnan(a @ torch.tensor([[0.0, 1.0], [1.0, 1.0]]))[0, 0]
    assert torch.isnan(a @ torch.tensor([0.0, 1.0]))[0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda z: z(3, 4) @ z(5, 6), r"mat1 and mat2 shapes cannot be multiplied \(3x4 and 5x6\)"),
        (lambda z: z(2, 3, 4) @ z(5, 6), r"mat1 and mat2 shapes cannot be multiplied \(6x4 and 5x6\)"),
        (lambda z: z(2, 3) @ z(3, 4).double(), "expected m1 and m2 to have the same dtype, but got: float != double"),
        (lambda z: torch.mm(z(2), z(2, 3)), "self must be a matrix"),
        (lambda z: torch.bmm(z(2, 2, 2), z(3, 2, 2)), "Expected size for first two dimensions of batch2"),
        (lambda z: z(2, 3, 4) @ z(3, 4, 5), "must match the size of tensor b"),
        (lambda z: z(()) @ z(3), "need to be at least 1D"),
        (lambda z: torch.dot(z(2), z(3)), "inconsistent tensor size"),
        (lambda z: torch.mv(z(2, 2), z(3)), "size mismatch"),
        (lambda z: z(2, 2).bool() @ z(2, 2).bool(), "not implemented for 'Bool'"),
        (lambda z: torch.addmm(z(2, 3), z(2, 4), z(4, 5)), "expanded size"),
        (lambda z: torch.addmm(z(3).double(), z(2, 4), z(4, 3)), "must have the same dtype"),
        (lambda z: torch.addmm(z(3), z(2, 4), z(4, 3), alpha=1j), "cannot be converted"),
        (lambda z: F.linear(z(2, 3), z(4, 5)), r"\(2x3 and 5x4\)"),
        (lambda z: F.linear(z(2, 3), z(4, 3), z(5)), "expanded size"),
        (lambda z: torch.linalg.multi_dot([z(2, 3)]), "at least 2 tensors"),
    ],
)
def test_errors(call, message):
    with pytest.raises(RuntimeError, match=message):
        call(lambda *shape: torch.zeros(shape[0] if shape == ((),) else shape))


def test_wrong_types():
    with pytest.raises(TypeError):
        torch.matmul(torch.zeros(2, 2), 3)
    with pytest.raises(TypeError):
        torch.zeros(2, 2) @ 3


def test_meta_tensors_have_the_right_shape():
    a = torch.empty(1 << 20, 300, device="meta")
    assert (a @ torch.empty(300, 7, device="meta")).shape == (1 << 20, 7)
    assert F.linear(a, torch.empty(9, 300, device="meta")).shape == (1 << 20, 9)


def test_chains_are_multiplied_in_the_cheapest_order():
    from flambeau._ops.linear.einsum import _best_split

    assert _best_split([10, 100, 5, 50])[0][2] == 1 and _best_split([50, 5, 100, 10])[0][2] == 0
    sizes = [30, 35, 15, 5, 10, 20, 25]  # ((0 (1 2)) ((3 4) 5)
    split = _best_split(sizes)
    assert (split[0][5], split[0][2], split[3][5]) == (2, 0, 4)


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        ((2, 3), (2, 3, 4), "batch1 must be a 3D tensor"), ((2, 3, 4), (3, 4), "batch2 must be a 3D tensor"),
        ((2, 3), (3, 4), "batch1 must be a 3D tensor"), ((2, 3, 4), (2, 3, 4), r"to be: \[2, 4\] but got: \[2, 3\]"),
        ((2, 3, 4), (3, 4, 5), r"to be: \[2, 4\] but got: \[3, 4\]"), ((2, 3, 4, 5), (2, 4, 5), "batch1 must be a 3D tensor"),
    ],
)  # fmt: skip
def test_batches_that_do_not_fit(first, second, text):
    x, y = torch.zeros(first), torch.zeros(second)
    with pytest.raises(RuntimeError, match=text):
        torch.bmm(x, y)
    for function in (torch.baddbmm, torch.addbmm):
        with pytest.raises(RuntimeError):
            function(torch.zeros(1), x, y)


def test_bfloat16_gradients_of_bilinear_round_after_each_output():
    x, y, w = (
        ((torch.arange(float(n)) * step) % 3.3 - 1.4).reshape(shape).bfloat16().requires_grad_()
        for n, step, shape in ((4, 1.7, (2, 2)), (6, 0.9, (2, 3)), (30, 1.3, (5, 2, 3)))
    )
    g = (torch.arange(10.0) * 0.7 % 1.9 - 1).reshape(2, 5).bfloat16()
    torch.nn.functional.bilinear(x, y, w).backward(g)
    assert x.grad.tolist() == [[-4.15625, -1.6171875], [-1.1953125, -2.125]]
    assert y.grad.tolist() == [[-3.3125, 0.796875, 2.609375], [1.5, 1.75, -3.375]]


@pytest.mark.slow
@pytest.mark.parametrize("d", [torch.bfloat16, torch.float16])
def test_16_bit_gradients_of_bilinear_in_every_way(d):
    x, y, w, g = (torch.randn(*s).to(d).requires_grad_() for s in ((3, 4), (3, 5), (6, 4, 5), (3, 6)))
    wide = [t.detach().float().requires_grad_() for t in (x, y, w, g)]

    def gradients(x, y, w, g, create_graph=False):
        return torch.autograd.grad(F.bilinear(x, y, w), (x, y, w), g, create_graph=create_graph)

    expected = gradients(*wide, create_graph=True)
    for made, one in zip(gradients(x, y, w, g, create_graph=True), expected):
        torch.testing.assert_close(made.float(), one, rtol=0.05, atol=0.1)
        seconds = torch.autograd.grad(made.square().sum(), (x, y, w, g), retain_graph=True, allow_unused=True)
        wanted = torch.autograd.grad(one.square().sum(), wide, retain_graph=True, allow_unused=True)
        for a, b in zip(seconds, wanted):
            assert (a is None) == (b is None)
            if a is not None:
                torch.testing.assert_close(a.float(), b, rtol=0.05, atol=0.05 * b.abs().max().item())
    by_left = lambda x, y, w, g: torch.func.vjp(lambda x: F.bilinear(x, y, w), x)[1](g)[0]
    args = [t.detach() for t in (x, y, w, g)]
    both = [torch.stack([t, t.flip(0)]) for t in args]
    for weight, dim in ((args[2], None), (both[2], 0)):
        made = torch.vmap(by_left, (0, 0, dim, 0))(both[0], both[1], weight, both[3])
        torch.testing.assert_close(made[0].float(), expected[0].detach(), rtol=0.05, atol=0.1)
    none = torch.zeros(0, 4, 5, dtype=d, requires_grad=True)
    assert all(not t.count_nonzero() for t in gradients(x, y, none, torch.zeros(3, 0, dtype=d)))


def test_many_rows_by_a_tiny_matrix_that_lies_by_columns():
    x = torch.arange(600.0).reshape(300, 2)
    w = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).t()
    assert torch.mm(x, w)[-1].tolist() == [598 + 2 * 599, 3 * 598 + 4 * 599]
    assert torch.mm(x, w.contiguous())[-1].tolist() == torch.mm(x, w)[-1].tolist()


def test_a_product_over_nothing_is_not_scaled():
    inf, nothing = float("inf"), torch.ones(2, 0)
    assert torch.addmm(torch.ones(2, 2), nothing, nothing.T, alpha=inf, beta=2).tolist() == [[2.0, 2.0]] * 2
    assert torch.baddbmm(torch.ones(1, 2, 2), nothing[None], nothing.mT[None], alpha=inf).unique().tolist() == [1.0]
    assert torch.addmv(torch.ones(2), nothing, torch.ones(0), alpha=inf).tolist() == [1.0, 1.0]


def test_factors_of_outer_products_of_integers():
    matrix, vector = torch.zeros(2, 2, dtype=torch.int64), torch.arange(2)
    assert torch.addr(matrix, vector, vector, alpha=3).tolist() == [[0, 0], [0, 3]]
    for factor in ({"alpha": 0.5}, {"beta": 2.0}, {"alpha": 1j}):
        with pytest.raises(RuntimeError, match="must not be a floating point number"):
            torch.addr(matrix, vector, vector, **factor)
    with pytest.raises(RuntimeError, match="Boolean alpha only supported for Boolean results"):
        torch.addr(matrix, vector.float(), vector, alpha=True)


def test_older_order_in_place():
    made, batches = torch.ones(3, 5), (torch.ones(2, 3, 4), torch.ones(2, 4, 5))
    with pytest.warns(UserWarning, match="deprecated"):
        made.addbmm_(2, *batches)
    with pytest.warns(UserWarning, match="deprecated"):
        assert made.unique().item() == 10 and made.addbmm_(1, 3, *batches).unique().item() == 34


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
@pytest.mark.parametrize("sizes", [(20, 30, 40), (70, 70, 70), (7, 100, 9), (2, 300, 50), (3, 4, 5)])
def test_complex_products_of_any_layout(sizes, batch, dtype):
    """Real and imaginary parts are taken apart where they lie: by rows, by columns, with gaps, conjugated."""
    m, k, n = sizes
    generator = torch.Generator().manual_seed(0)

    def layouts(rows, columns):
        x = torch.randn(*batch, rows, columns, dtype=dtype, generator=generator)
        wide = torch.randn(*batch, 2 * rows, 3 * columns, dtype=dtype, generator=generator)
        return [x, x.mT.contiguous().mT, wide[..., ::2, ::3], x.mT.contiguous().mH]

    for x in layouts(m, k):
        for y in layouts(k, n):
            for right in (y, y[0]) if batch else (y,):
                expected = np.matmul(*[a.resolve_conj().numpy().astype(np.complex128) for a in (x, right)])
                made = x @ right
                assert made.dtype is dtype and made.shape == expected.shape
                tolerance = 20 * torch.finfo(dtype).eps * np.abs(expected).max()
                assert np.abs(made.numpy() - expected).max() < tolerance
    if not batch:
        c = torch.randn(m, n, dtype=dtype, generator=generator)
        made, expected = torch.addmm(c, x, y, beta=2, alpha=0.5j), 2 * c + 0.5j * (x @ y)
        assert torch.allclose(made, expected, rtol=1e-4, atol=1e-4)
