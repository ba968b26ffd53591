"""Operations on sparse tensors with dense dimensions and layouts of all kinds, against the dense tensors they stand for."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

import flambeau as torch


def hybrid(grad=False):
    """Two sparse and two dense dimensions, one place named twice."""
    index = torch.tensor([[0, 2, 2, 0], [1, 0, 3, 1]])
    values = torch.arange(1.0, 25.0).view(4, 3, 2)
    return torch.sparse_coo_tensor(index, values, (3, 4, 3, 2), requires_grad=grad)


@pytest.mark.parametrize("dim", [0, 1, 2, 3, -1, -4])
def test_parts_along_any_dimension(dim):
    s = hybrid()
    x = s.to_dense()
    for number in (0, 1, -1):
        made = s.select(dim, number)
        assert torch.equal(made.to_dense() if made.is_sparse else made, x.select(dim, number))
    wanted = torch.tensor([1, 1, 0])
    assert torch.equal(s.index_select(dim, wanted).to_dense(), x.index_select(dim, wanted))
    assert s.index_select(dim, wanted[:0]).shape == x.index_select(dim, wanted[:0]).shape
    if dim % 4 < 2:  # along sparse dimensions, numbers below zero count from the end
        last = torch.tensor([-1, 0, -2])
        assert torch.equal(s.index_select(dim, last).to_dense(), x.index_select(dim, last % x.shape[dim]))
    for bad in (-9, 9):
        with pytest.raises((IndexError, RuntimeError), match=r"out of (range|bounds)"):
            s.index_select(dim, torch.tensor([bad]))


@pytest.mark.parametrize("dim", [0, 1, 2, 3, 4, -1, -5])
def test_new_dimensions(dim):
    s = hybrid()
    assert torch.equal(s.unsqueeze(dim).to_dense(), s.to_dense().unsqueeze(dim))


@pytest.mark.parametrize("keepdim", [False, True])
def test_sums_along_all_choices_of_dimensions(keepdim):
    s = hybrid()
    x = s.to_dense()
    for count in range(1, 5):
        for dims in itertools.combinations(range(4), count):
            made = s.sum(dims, keepdim)
            made = made.to_dense() if made.is_sparse else made
            assert made.shape == x.sum(dims, keepdim).shape and torch.equal(made, x.sum(dims, keepdim))
    assert s.sum() == x.sum()


def test_permutations_within_sparse_and_dense_dimensions():
    s = hybrid()
    for order in ((1, 0, 2, 3), (0, 1, 3, 2), (1, 0, 3, 2)):
        assert torch.equal(s.permute(order).to_dense(), s.to_dense().permute(order))
    for order in ((2, 1, 0, 3), (0, 3, 2, 1)):
        with pytest.raises(RuntimeError, match="sparse"):
            s.permute(order)


def test_norms_and_truths():
    s = hybrid()
    x = s.to_dense()
    for order in (1, 2, 3.5, np.inf):
        assert s.norm(order).item() == pytest.approx(x.norm(order).item(), rel=1e-5)
    assert s.any() and not torch.zeros(2, 2).to_sparse().any()
    for refused in (lambda: s.norm(2, 0), lambda: torch.linalg.vector_norm(s, 0), lambda: s.any(0), lambda: s.all()):
        with pytest.raises((NotImplementedError, RuntimeError)):
            refused()


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
@pytest.mark.parametrize(("beta", "alpha"), [(1, 1), (0, 1), (1, 2), (0.5, 3), (0, 2)])
def test_products_added_to_a_matrix(layout, beta, alpha):
    x = torch.tensor([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]])
    y, c = torch.arange(12.0).view(3, 4), torch.arange(8.0).view(2, 4)
    s = x.to_sparse(layout=layout)
    for made in (torch.addmm(c, s, y, beta=beta, alpha=alpha), torch.sparse.addmm(c, s, y, beta=beta, alpha=alpha)):
        assert torch.equal(made, beta * c + alpha * (x @ y))


@pytest.mark.parametrize("layout", [None, torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (6, 4)])
def test_diagonals(layout, shape):
    diagonals = torch.arange(1.0, 13.0).view(3, 4)
    for offsets in ([0, 1, -1], [2, -2, 0], [3, -3, 1]):
        made = torch.sparse.spdiags(diagonals, torch.tensor(offsets), shape, layout)
        assert made.layout is (layout or torch.sparse_coo)
        expected = sp.spdiags(diagonals.numpy(), np.array(offsets), *shape).toarray()
        np.testing.assert_array_equal(made.to_dense().numpy(), expected)
    one = torch.sparse.spdiags(diagonals[0], torch.tensor(-1), shape)
    np.testing.assert_array_equal(one.to_dense().numpy(), sp.spdiags(diagonals[0].numpy(), -1, *shape).toarray())
    with pytest.raises(RuntimeError, match="Offset tensor contains duplicate values"):
        torch.sparse.spdiags(diagonals, torch.tensor([0, 1, 0]), shape)


def test_gradients_through_parts():
    for dim in range(4):
        s = hybrid(grad=True)
        x = s.detach().to_dense().requires_grad_()
        weights = torch.arange(1.0, 1.0 + x.select(dim, 1).numel()).view(x.select(dim, 1).shape)
        made = s.select(dim, 1)
        ((made.to_dense() if made.is_sparse else made) * weights).sum().backward()
        (x.select(dim, 1) * weights).sum().backward()
        found = s.grad.to_dense() if s.grad.is_sparse else s.grad
        where = s.detach().to_dense() != 0
        assert torch.equal(found[where], x.grad[where])


@pytest.mark.parametrize("index", [torch.int32, torch.int64])
@pytest.mark.parametrize("width", [None, 1, 5])
def test_products_with_rows_that_are_known_by_their_starts(index, width):
    """Rows of entries are written out only for gradients; one column is added up in a register."""
    torch.manual_seed(0)
    dense = torch.randn(7, 9, dtype=torch.float64) * (torch.rand(7, 9) > 0.6)
    dense[3] = 0
    csr = dense.to_sparse_csr()
    values = csr.values().detach().requires_grad_()
    x = torch.sparse_csr_tensor(csr.crow_indices().to(index), csr.col_indices().to(index), values, (7, 9))
    y = torch.randn(9, *[width] * (width is not None), dtype=torch.float64, requires_grad=True)
    made = x @ y
    torch.testing.assert_close(made, dense @ y)
    made.backward(torch.ones_like(made))
    torch.testing.assert_close(y.grad, (dense.T @ torch.ones_like(made)).detach())
    _rows, columns = dense.nonzero().T
    torch.testing.assert_close(values.grad, (y if width is None else y.sum(1)).detach()[columns])
    coo = dense.to_sparse()
    torch.testing.assert_close(coo @ y, dense @ y)
