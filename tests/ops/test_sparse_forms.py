"""Sparse tensors in the forms programs use: batches and dense dimensions, in-place writes, copies, products."""

import pytest

import flambeau as torch
from flambeau.nn import functional

LAYOUTS = [torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc]


def blocks(layout):
    return {"blocksize": (2, 2)} if layout in LAYOUTS[2:] else {}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_batches_of_matrices(layout):
    x = torch.zeros(2, 4, 4)
    x[0, 0, 1], x[0, 3, 3], x[1, 2, 0], x[1, 1, 2] = 1.0, 2.0, 3.0, 4.0
    s = x.to_sparse(layout=layout, **blocks(layout))
    assert torch.equal(s.to_dense(), x) and s.shape == (2, 4, 4) and s.sparse_dim() == 2 and s.dense_dim() == 0
    assert s.values().shape == ((2, 2, 2, 2) if blocks(layout) else (2, 2)) and s._nnz() == 2
    assert torch.equal(s[1].to_dense(), x[1]) and s[1].layout is layout
    assert torch.equal(s.transpose(-1, -2).to_dense(), x.mT)
    assert torch.equal((s * 2).to_dense(), 2 * x) and torch.equal(s.to_sparse().to_dense(), x)
    with pytest.raises(RuntimeError, match="same number of specified elements per batch"):
        torch.stack([x[0], x[0] * 0]).to_sparse(layout=layout, **blocks(layout))


def test_compressed_tensors_of_given_parts():
    starts, columns = torch.tensor([[0, 1, 2], [0, 1, 2]]), torch.tensor([[0, 1], [1, 0]])
    s = torch.sparse_csr_tensor(starts, columns, torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert s.shape == (2, 2, 2) and s.to_dense().tolist() == [[[1, 0], [0, 2]], [[0, 3], [4, 0]]]
    with pytest.raises(RuntimeError, match="rise from 0"):
        torch.sparse_csr_tensor(torch.tensor([[0, 1, 2], [0, 3, 2]]), columns, torch.ones(2, 2), (2, 2, 2))
    with pytest.raises(RuntimeError, match="do not fit"):
        torch.sparse_csr_tensor(starts, columns, torch.ones(3, 2), (2, 2, 2))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_dense_dimensions(layout):
    x = torch.arange(32.0).reshape(4, 4, 2)
    s = x.to_sparse(layout=layout, dense_dim=1, **blocks(layout))
    assert s.dense_dim() == 1 and torch.equal(s.to_dense(), x)
    assert s.values().shape[-1] == 2


def test_gradients_pass_through_batches():
    x = (torch.arange(16.0).reshape(2, 2, 4) + 1).requires_grad_()
    weight = torch.arange(16.0).reshape(2, 2, 4)
    (x.to_sparse_csr().to_dense() * weight).sum().backward()
    assert torch.equal(x.grad, weight)


def test_emptied_and_empty_tensors():
    for layout in (torch.sparse_coo, torch.sparse_csr):
        s = torch.eye(3).to_sparse(layout=layout)
        empty = torch.empty_like(s)
        assert empty.layout is layout and empty._nnz() == 0 and empty.shape == (3, 3)
        assert torch.empty_like(s, layout=torch.strided).layout is torch.strided
        assert s.zero_() is s and s._nnz() == 0 and not s.to_dense().any()
    assert torch.eye(3).to_sparse().is_contiguous() is False
    with pytest.raises(RuntimeError, match="is_contiguous"):
        torch.eye(3).to_sparse_csr().is_contiguous()
    with pytest.raises(NotImplementedError, match="ones_like"):
        torch.ones_like(torch.eye(3).to_sparse())


def test_parts_are_copies():
    x = torch.arange(12.0).reshape(3, 4)
    assert torch.equal(x.to_sparse().narrow_copy(0, 1, 2).to_dense(), x[1:])
    assert torch.equal(x.to_sparse().narrow_copy(1, 1, 2).to_dense(), x[:, 1:3])
    assert torch.equal(x.to_sparse(1).narrow_copy(1, 1, 2).to_dense(), x[:, 1:3])
    assert torch.equal(x.to_sparse().narrow_copy(0, 1, 2).coalesce().values(), torch.arange(4.0, 12.0))


def test_declared_coalesced():
    s = torch.sparse_coo_tensor([[0, 0, 1]], [1.0, 2.0, 3.0], (3,))
    assert s._coalesced_(True) is s and s.is_coalesced() and s.values().tolist() == [1, 2, 3]
    assert not s._coalesced_(False).is_coalesced() and s.coalesce().values().tolist() == [3, 3]


@pytest.mark.parametrize("other", [torch.float64, torch.int32, torch.float16])
def test_in_place_with_another_dtype(other):
    s, t = torch.eye(3).to_sparse(), torch.ones(3, 3, dtype=other).to_sparse()
    s += t
    assert s.dtype is torch.float32 and torch.equal(s.to_dense(), torch.eye(3) + 1)
    s -= t
    s *= t
    assert s.dtype is torch.float32 and torch.equal(s.to_dense(), torch.eye(3))
    s.copy_(t)
    assert s.dtype is torch.float32 and torch.equal(s.to_dense(), torch.ones(3, 3))
    with pytest.raises(RuntimeError, match="between dense and sparse"):
        s.copy_(torch.ones(3, 3))


def test_integers_do_not_become_floats_in_place():
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.eye(3).int().to_sparse().add_(torch.eye(3).to_sparse())


def test_batched_products():
    a, b = torch.randn(2, 3, 4).relu(), torch.randn(2, 4, 5, requires_grad=True)
    made = torch.bmm(a.to_sparse(), b)
    assert torch.allclose(made, a @ b, atol=1e-6)
    made.sum().backward()
    assert torch.allclose(b.grad, a.sum(1)[..., None].expand(2, 4, 5), atol=1e-6)


@pytest.mark.parametrize("layout", [torch.sparse_coo, *LAYOUTS[:2]])
def test_linear_of_sparse_operands(layout):
    x, w, bias = torch.randn(3, 4).relu(), torch.randn(5, 4).requires_grad_(), torch.randn(5)
    expected = functional.linear(x, w, bias)
    made = functional.linear(x.to_sparse(layout=layout), w, bias)
    assert torch.allclose(made, expected, atol=1e-6)
    made.sum().backward()
    assert torch.allclose(w.grad, x.sum(0).expand(5, 4), atol=1e-6)
    assert torch.allclose(functional.linear(x, w.detach().to_sparse(layout=layout), bias), expected, atol=1e-6)


def test_smm_is_sparse():
    made = torch.smm(torch.eye(3).to_sparse(), torch.ones(3, 2))
    assert made.is_sparse and torch.equal(made.to_dense(), torch.ones(3, 2))


@pytest.mark.parametrize(
    "convert",
    [
        lambda m: m.to_sparse(layout=torch.sparse_bsr), lambda m: m.to_sparse(layout=torch.sparse_bsc), lambda m: m.to_sparse_bsr((2, 2, 2)),
        lambda m: m.to_sparse_bsr((2,)), lambda m: m.to_sparse_bsr((3, 2)), lambda m: m.to_sparse_bsr((2, 0)), lambda m: m[0].to_sparse_csr(),
        lambda m: m.to_sparse_csr(dense_dim=1),
    ],
)  # fmt: skip
def test_blocks_that_do_not_fit(convert):
    with pytest.raises(RuntimeError, match="to_sparse"):
        convert(torch.eye(4))


def test_entries_of_one_place_have_one_gradient():
    s = torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 0]], [3.0, 4.0, 5.0], (2, 3))
    for use in (
        lambda q: q.to_dense().sum(),
        lambda q: (q * 2).to_dense().sum() / 2,
        torch.sparse.sum,
        lambda q: torch.sparse.mm(q, torch.ones(3, 2)).sum() / 2,
    ):
        q = s.clone().requires_grad_()
        use(q).backward()
        assert q.grad.to_dense().tolist() == [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]


def test_parts_by_slices_and_numbers():
    d = torch.tensor([[0.0, 0.0, 3.0], [4.0, 0.0, 5.0]])
    for s in (d.to_sparse(), d.to_sparse_csr()):
        assert s[:, 0].to_dense().tolist() == [0.0, 4.0]
        assert s[1, 1:].to_dense().tolist() == [0.0, 5.0]
        assert s[:, ::2].to_dense().tolist() == [[0.0, 3.0], [4.0, 5.0]]
        assert (s * torch.tensor([1, 1, 2])).to_dense().tolist() == [[0.0, 0.0, 6.0], [4.0, 0.0, 10.0]]
    assert (d.to_sparse_csr() + d).tolist() == (2 * d).tolist()


def test_what_sparse_tensors_say():
    assert (
        torch.sparse_coo_tensor([[0]], [1.0], (3,)).is_coalesced() and torch.sparse_coo_tensor(size=(3,)).is_coalesced()
    )
    with pytest.raises(TypeError, match="can't convert Sparse layout tensor to numpy"):
        torch.ones(2).to_sparse().numpy()
    with pytest.raises(RuntimeError, match="matrices expected, got 1D tensor"):
        torch.mm(torch.sparse_coo_tensor([[0, 1]], torch.ones(2, 2), (3, 2)), torch.ones(2, 2))


@pytest.mark.parametrize(
    "make, starts, places, values, size",
    [
        ("csr", [0, 1, 2], [1, 0], (2,), (2, 2)), ("csr", [0, 1, 2], [1, 0], (2, 3), (2, 2, 3)), ("csc", [0, 1, 2, 2], [1, 0], (2,), (2, 3)),
        ("csc", [0, 1, 2, 2], [1, 0], (2, 4), (2, 3, 4)), ("bsr", [0, 1, 2], [1, 0], (2, 2, 3), (4, 6)),
        ("bsr", [0, 1, 2], [1, 0], (2, 2, 3, 4), (4, 6, 4)), ("bsc", [0, 1, 2, 2], [1, 0], (2, 2, 3), (4, 9)),
        ("csr", [[0, 1, 2], [0, 1, 2]], [[1, 0], [0, 1]], (2, 2), (2, 2, 2)),
    ],
)  # fmt: skip
def test_sizes_that_are_not_given(make, starts, places, values, size):
    """Expected values as PyTorch gives them."""
    function = getattr(torch, f"sparse_{make}_tensor")
    held = torch.rand(values)
    made = function(torch.tensor(starts), torch.tensor(places), held)
    given = function(torch.tensor(starts), torch.tensor(places), held, size)
    assert made.shape == size and torch.equal(made.to_dense(), given.to_dense())


@pytest.mark.parametrize("log", [False, True])
def test_softmax_over_every_dimension(log):
    function, dense = (torch.sparse.log_softmax, torch.log_softmax) if log else (torch.sparse.softmax, torch.softmax)
    held = torch.tensor([[[1.0, 2.0], [3.0, 5.0]], [[0.0, 1.0], [1.0, -1.0]]], requires_grad=True)
    x = torch.sparse_coo_tensor(torch.tensor([[0, 2]]), held, (3, 2, 2))
    for dim in (1, 2, -1, -2):
        made = function(x, dim)
        torch.testing.assert_close(made.to_dense()[[0, 2]], dense(held, dim))
        assert made.to_dense()[1].eq(0).all()
    torch.testing.assert_close(function(x, 0).to_dense()[[0, 2]], dense(held, 0))
    matrix = torch.sparse_coo_tensor(torch.tensor([[0, 0, 1], [0, 2, 1]]), torch.tensor([1.0, 2.0, 7.0]), (2, 3))
    found = function(matrix, 1).coalesce().values()
    torch.testing.assert_close(found, torch.cat([dense(torch.tensor([1.0, 2.0]), 0), dense(torch.tensor([7.0]), 0)]))
    with pytest.raises(RuntimeError, match="COO"):
        function(matrix.to_sparse_csr(), 1)


def test_sums_and_products_of_the_same_places():
    """Indices that are one object, that are equal, and that differ."""
    index = torch.tensor([[0, 1, 1], [2, 0, 2]])
    a = torch.sparse_coo_tensor(index, torch.tensor([1.0, 2.0, 3.0]), (2, 3)).coalesce()
    others = [a * 2, torch.sparse_coo_tensor(index.clone(), torch.tensor([2.0, 4.0, 6.0]), (2, 3)).coalesce()]
    others.append(torch.sparse_coo_tensor(index[:, :2], torch.tensor([5.0, 7.0]), (2, 3)).coalesce())
    for b in others:
        for x, y in ((a, b), (b, a), (a.to_sparse_csr(), b.to_sparse_csr())):
            assert torch.equal((x + y).to_dense(), a.to_dense() + b.to_dense())
            assert torch.equal((x * y).to_dense(), a.to_dense() * b.to_dense())
            assert (x + y).layout is x.layout


@pytest.mark.parametrize("layout", (torch.sparse_coo, torch.sparse_csr))
def test_a_copy_is_one_step_of_history(layout):
    """Its gradient is what comes, of whatever pattern."""
    dense = torch.tensor([[1.0, 0, 2], [0, 3, 0]])
    x = dense.to_sparse(layout=layout).requires_grad_()
    y = x.clone()
    assert y.grad_fn.name() == "CloneBackward0"
    (y.to_dense() ** 2).sum().backward()
    assert x.grad.layout is layout and torch.equal(x.grad.to_dense(), 2 * dense)


def test_gradients_keep_the_pattern_that_a_hook_gave_them():
    x = torch.ones(2, 2, requires_grad=True).to_sparse()
    y = x.clone()
    y.register_hook(lambda g: g.to_dense().to_sparse(1))
    (g,) = torch.autograd.grad(y.to_dense(), x, torch.ones(2, 2))
    assert (g.sparse_dim(), g.dense_dim()) == (1, 1) and torch.equal(g.to_dense(), torch.ones(2, 2))


def test_text_wraps_where_its_indented_numbers_reach_the_width():
    x = torch.arange(12.0).reshape(3, 4)
    assert repr((x - 6).to_sparse().double() / 7).splitlines()[2:4] == [
        "       values=tensor([-0.8571, -0.7143, -0.5714, -0.4286, -0.2857, -0.1429,",
        "                       0.1429,  0.2857,  0.4286,  0.5714,  0.7143]),",
    ]
    assert repr(((x - 6) / 7).to_sparse_csr()).splitlines()[-1] == (
        "       size=(3, 4), nnz=11, layout=torch.sparse_csr)"
    )


def test_zeros_like_in_a_sparse_layout():
    for layout in (torch.sparse_coo, torch.sparse_csr):
        made = torch.zeros_like(torch.ones(2, 3, dtype=torch.float64), layout=layout)
        assert made.layout is layout and made.dtype is torch.float64
        assert torch.equal(made.to_dense(), torch.zeros(2, 3, dtype=torch.float64))


def test_new_tensors_like_a_sparse_one_are_sparse():
    s = torch.eye(3).to_sparse()
    for made in (s.new(s._indices(), s._values(), s.size()), s.new(s._indices(), s._values())):
        assert (
            made.layout is torch.sparse_coo and torch.equal(made.to_dense(), torch.eye(3)) and not made.is_coalesced()
        )
    assert s.new(s._indices(), s._values().double(), (4, 4)).dtype is torch.float64
    for made, shape in ((s.new(), (0,)), (s.new(2, 3), (2, 3)), (s.new(torch.Size([2, 2])), (2, 2))):
        assert made.layout is torch.sparse_coo and made.shape == shape and made._nnz() == 0
    for layout in (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc):
        s = torch.eye(3).to_sparse(layout=layout)
        for made in (s.new_zeros(2, 3), s.new_empty((2, 3)), torch.ones(3).new_zeros(2, 3, layout=layout)):
            assert made.layout is layout and made.shape == (2, 3) and made._nnz() == 0 and made.dtype is torch.float32
        assert s.new_zeros(2, 3, layout=torch.strided).layout is torch.strided
        assert s.new_empty(2, 3, dtype=torch.float64, requires_grad=True).dtype is torch.float64


def test_one_entry_may_be_a_number():
    for values in (5.0, torch.tensor(5.0)):
        made = torch.sparse_coo_tensor([[1], [2]], values, (2, 3))
        assert made.to_dense().tolist() == [[0, 0, 0], [0, 0, 5]]
    with pytest.raises(RuntimeError, match="indices and values must have same nnz"):
        torch.sparse_coo_tensor([[1, 0], [2, 0]], 5.0, (2, 3))


def test_division_that_rounds():
    s = torch.tensor([[0.0, -5.0], [7.0, 0.0]]).to_sparse()
    for mode in ("trunc", "floor"):
        made = torch.div(s, 2, rounding_mode=mode)
        assert made.is_sparse and torch.equal(made.to_dense(), torch.div(s.to_dense(), 2, rounding_mode=mode))


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_short_floats_are_multiplied_by_numbers(layout):
    x = torch.tensor([[0.0, 1.0], [2.0, 0.0]], dtype=torch.float16).to_sparse(layout=layout)
    assert (x * 2.5).to_dense().tolist() == (2.5 * x).to_dense().tolist() == [[0, 2.5], [5, 0]]
    assert torch.addmv(torch.ones(2), x.float(), torch.ones(2), beta=2, alpha=3).tolist() == [5, 8]


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_nothing_is_assigned_to_elements_of_a_sparse_tensor(layout):
    x = torch.eye(2).to_sparse(layout=layout)
    for key in ((0, 0), 0, slice(None)):
        with pytest.raises(TypeError, match="Cannot assign to a sparse tensor"):
            x[key] = 1.0
    assert torch.eye(2, dtype=torch.bool).to_sparse(layout=layout)[0, 0].dtype == torch.bool


def test_what_lies_twice_at_a_place_is_added_up_first():
    x = torch.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], (2, 2))
    assert torch.div(x, 2, rounding_mode="floor").to_dense()[0, 1].item() == 1
    assert not torch.sparse_coo_tensor([[0, 0]], [-1.0, 1.0], (1,)).is_nonzero()
    with pytest.raises(RuntimeError, match="Sparse division requires a scalar"):
        x / x


def test_sparse_tensors_of_broadcast_sizes_are_multiplied():
    x = torch.tensor([[0.0, 1.0], [2.0, 0.0]]).to_sparse()
    row = torch.tensor([[3.0, 0.0]]).to_sparse()
    assert (x * row).to_dense().tolist() == (row * x).to_dense().tolist() == [[0, 0], [6, 0]]
    assert (x * torch.tensor(2.0).to_sparse()).to_dense().tolist() == [[0, 2], [4, 0]]


def test_every_element_has_a_gradient_in_a_sum():
    for layout in (torch.sparse_coo, torch.sparse_csr):
        x = torch.eye(2).to_sparse(layout=layout).requires_grad_()
        x.sum().backward()
        assert x.grad.tolist() == [[1, 1], [1, 1]]
    x = torch.eye(2).to_sparse().requires_grad_()
    torch.sparse.sum(x).backward()
    assert x.grad.layout == torch.sparse_coo and x.grad.to_dense().tolist() == [[1, 0], [0, 1]]
    assert torch.eye(2).to_sparse_csr().sum(1, keepdim=True).layout == torch.sparse_csr


@pytest.mark.parametrize(
    "shapes, message",
    [
        (((2, 3), (2,), (3, 3, 3)), "Output shape must be 2d"),
        (((2, 3), (1,), (3, 3)), "does not match the number of offsets"),
        (((2, 2, 3), (2,), (3, 3)), "Diagonals must be vector or matrix"),
        (((2, 3), (2, 1), (3, 3)), "Offsets must be scalar or vector"),
    ],
)
def test_spdiags_refuses(shapes, message):
    diagonals, offsets, size = shapes
    with pytest.raises(RuntimeError, match=message):
        torch.sparse.spdiags(torch.ones(diagonals), torch.zeros(offsets, dtype=torch.int64), size)
