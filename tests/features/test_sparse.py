"""Sparse tensors."""

import flambeau as torch


def test_coordinates():
    s = torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 0]], [3.0, 4.0, 5.0], (2, 3))
    assert s.is_sparse and not s.is_coalesced()
    s = s.coalesce()
    assert s.indices().tolist() == [[0, 1], [2, 0]] and s.values().tolist() == [3, 9]
    assert s.to_dense().tolist() == [[0, 0, 3], [9, 0, 0]]


def test_round_trip():
    d = torch.tensor([[0.0, 2.0], [0.0, 0.0]])
    assert d.to_sparse().values().tolist() == [2] and torch.equal(d.to_sparse().to_dense(), d)


def test_arithmetic():
    torch.manual_seed(0)
    d = torch.randn(4, 5) * (torch.rand(4, 5) > 0.6)
    s, x = d.to_sparse(), torch.randn(5, 3)
    assert torch.allclose(torch.sparse.mm(s, x), d @ x, atol=1e-6) and torch.allclose(s @ x, d @ x, atol=1e-6)
    assert torch.allclose((s + s).to_dense(), d + d)
    assert torch.allclose(torch.sparse.sum(s), d.sum(), atol=1e-6)


def test_sizes_beyond_memory():
    n = 10**7
    s = torch.sparse_coo_tensor([[0, n - 1], [n - 1, 0]], [1.0, 2.0], (n, n))
    assert s.shape == (n, n) and s.coalesce().values().sum() == 3
