"""Other sizes for sparse tensors, copies in other sizes, functions of elements, removed methods."""

import pytest

import flambeau as torch


def test_copies_in_another_size():
    x = torch.arange(6.0)
    with pytest.warns(UserWarning, match="deprecated"):
        assert x.resize(2, 3).tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.warns(UserWarning, match="deprecated"):
        assert x.resize_as(torch.ones(3, 2)).shape == (3, 2)
    assert x.shape == (6,)


def test_sparse_tensors_grow():
    t = torch.eye(3).to_sparse_coo()
    assert t.sparse_resize_((4, 5), 2, 0) is t
    assert t.shape == (4, 5) and t.to_dense()[:3, :3].equal(torch.eye(3)) and t.to_dense().sum() == 3
    rows = torch.eye(2).to_sparse(1).sparse_resize_((3, 3), 1, 1)
    assert rows.to_dense().tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 0]]
    with pytest.raises(RuntimeError, match="shrinking"):
        t.sparse_resize_((2, 2), 2, 0)
    with pytest.raises(RuntimeError, match="sparse"):
        t.sparse_resize_((4, 5), 1, 1)
    with pytest.raises(NotImplementedError):
        torch.eye(3).sparse_resize_((4, 5), 2, 0)


def test_sparse_tensors_are_cleared():
    t = torch.eye(3).to_sparse().sparse_resize_and_clear_((2, 2, 5), 2, 1)
    assert t.shape == (2, 2, 5) and t._nnz() == 0 and t.sparse_dim() == 2
    assert torch.resize_as_sparse_(torch.eye(3).to_sparse(), torch.zeros(4, 4).to_sparse()).shape == (4, 4)


def test_sspaddmm():
    eye = torch.eye(2).to_sparse()
    assert eye.sspaddmm(eye, torch.ones(2, 2), beta=2, alpha=3).to_dense().tolist() == [[5, 3], [3, 5]]


def test_map2():
    x = torch.tensor([1.0, 2.0])
    assert x.map2_(torch.tensor([3.0]), torch.tensor([5.0, 7.0]), lambda a, b, c: a + b * c) is x
    assert x.tolist() == [16, 23]


@pytest.mark.parametrize("name", ["eig", "symeig", "lstsq", "solve"])
def test_removed_methods_say_so(name):
    for removed in (
        getattr(torch.eye(2), name),
        lambda: getattr(torch, name)(torch.eye(2)),
        lambda: torch.matrix_rank(torch.eye(2)),
    ):
        with pytest.raises(RuntimeError, match=r"deprecated since version 1\.9 and is now removed: use torch\.linalg"):
            removed()


def test_sparse_invariants_switch():
    switch = torch.sparse.check_sparse_tensor_invariants
    assert not switch.is_enabled()
    with switch():
        assert switch.is_enabled()
        with switch(False):
            assert not switch.is_enabled()
        with pytest.raises(RuntimeError):
            torch.sparse_coo_tensor(torch.tensor([[0, 5]]), torch.ones(2), (3,))
    assert not switch.is_enabled()
    assert switch()(switch.is_enabled)()


def test_spsolve():
    a = torch.tensor([[2.0, 1.0], [0.0, 4.0]])
    assert torch.allclose(
        a @ torch.sparse.spsolve(a.to_sparse_csr(), torch.tensor([3.0, 8.0])), torch.tensor([3.0, 8.0])
    )
    with pytest.raises(RuntimeError, match="sparse_csr"):
        torch.sparse.spsolve(a, torch.ones(2))


@pytest.mark.parametrize(
    "mode, antialias, wanted",
    [
        ("bilinear", True, [59, 47, 35, 24, 138, 126, 114, 103, 217, 205, 193, 182]),
        ("bilinear", False, [56, 43, 31, 18, 139, 126, 114, 101, 222, 209, 197, 184]),
        ("bicubic", True, [57, 44, 32, 19, 139, 126, 114, 101, 221, 208, 196, 183]),
        ("bicubic", False, [52, 39, 27, 14, 139, 126, 114, 101, 226, 213, 201, 188]),
    ],
)
def test_bytes_are_rounded_after_each_dimension(mode, antialias, wanted):
    x = torch.arange(0, 250, 10, dtype=torch.uint8).reshape(1, 1, 5, 5).flip(-1)
    out = torch.nn.functional.interpolate(x, size=(3, 4), mode=mode, antialias=antialias)
    assert out.dtype is torch.uint8 and out.flatten().tolist() == wanted


@pytest.mark.slow
def test_memory_grows_to_what_is_needed():
    for dtype in (torch.uint8, torch.float16, torch.float32, torch.float64):
        x = torch.arange(2).to(dtype)
        x.resize_(10)
        assert x.untyped_storage().nbytes() == 10 * x.itemsize and x[:2].tolist() == [0, 1]
        part = torch.arange(8).to(dtype)[3:5]
        part.resize_(2, 5)
        assert part.untyped_storage().nbytes() == 13 * x.itemsize and part.storage_offset() == 3
        assert part[0].tolist() == [3, 4, 5, 6, 7]
        part.resize_(1)
        assert part.tolist() == [3] and part.untyped_storage().nbytes() == 13 * x.itemsize
