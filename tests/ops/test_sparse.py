"""Sparse tensors: layouts, arithmetic, products, gradients; nothing may become dense unasked."""

import pytest

import flambeau as torch

LAYOUTS = [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc]
DENSE = torch.tensor([[0.0, 0.0, 4.0, 0.0], [4.0, 0.0, 5.0, 1.0]])


def sparse(layout, dense=DENSE):
    return dense.to_sparse(layout=layout, blocksize=(1, 2) if layout in LAYOUTS[3:] else None)


def uncoalesced():
    return torch.sparse_coo_tensor([[0, 1, 1, 0], [2, 0, 2, 2]], [3.0, 4.0, 5.0, 1.0], (2, 3))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_return_to_dense(layout):
    s = sparse(layout)
    assert s.layout is layout
    assert s.is_sparse == (layout is torch.sparse_coo)
    assert s.is_sparse_csr == (layout is torch.sparse_csr)
    assert s.to_dense().equal(DENSE)
    assert s.t().to_dense().equal(DENSE.t())
    assert (s * 2).to_dense().equal(DENSE * 2)
    assert (-s).to_dense().equal(-DENSE)
    assert s.sum().item() == 14
    assert s.to_sparse(layout=torch.sparse_coo).to_dense().equal(DENSE)


def test_coalesce_adds_equal_coordinates():
    s = uncoalesced()
    assert not s.is_coalesced() and s._nnz() == 4
    with pytest.raises(RuntimeError):
        s.indices()
    c = s.coalesce()
    assert c.indices().tolist() == [[0, 1, 1], [2, 0, 2]]
    assert c.values().tolist() == [4, 4, 5]


def test_compressed_parts():
    s = torch.sparse_csr_tensor([0, 1, 3], [2, 0, 2], [4.0, 4.0, 5.0], (2, 3))
    assert s.crow_indices().tolist() == [0, 1, 3]
    assert s.col_indices().tolist() == [2, 0, 2]
    with pytest.raises(RuntimeError, match="column compressed"):
        s.ccol_indices()


@pytest.mark.parametrize("index", [[[0, 2], [0, 0]], [[0, -1], [0, 0]]])
def test_coordinates_outside_the_size_raise(index):
    with pytest.raises(RuntimeError):
        torch.sparse_coo_tensor(index, [1.0, 2.0], (2, 3))


def test_bad_compressed_indices_raise():
    with pytest.raises(RuntimeError):
        torch.sparse_csr_tensor([0, 3, 2], [0, 1], [1.0, 2.0], (2, 2))
    with pytest.raises(RuntimeError):
        torch.sparse_csr_tensor([0, 1, 2], [0, 9], [1.0, 2.0], (2, 2))


def test_huge_matrix_with_two_entries():
    n = 10**7
    s = torch.sparse_coo_tensor([[5, n - 1], [n - 1, 0]], [2.0, 3.0], (n, n)).coalesce()
    assert (s + s).values().tolist() == [4, 6]
    assert (s * s).values().tolist() == [4, 9]
    assert s.sum().item() == 5
    assert (s @ s).coalesce().indices().tolist() == [[5], [0]]
    assert torch.sparse.sum(s, 0).values().tolist() == [3, 2]
    assert s.t()[0].coalesce().indices().tolist() == [[n - 1]]


def test_arithmetic():
    x, y = torch.tensor([[1.0, 0.0], [2.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    a, b = x.to_sparse(), y.to_sparse()
    for result, expected in (
        (a + b, x + y),
        (a - b, x - y),
        (a * b, x * y),
        (a * y, x * y),
        (y + a, x + y),
        (a / 2, x / 2),
    ):
        assert result.to_dense().equal(expected)
    assert a.sin().to_dense().allclose(x.sin())
    assert torch.add(a, b, alpha=3).to_dense().equal(x + 3 * y)
    changed = a.clone()
    changed.add_(b).mul_(2)
    assert changed.to_dense().equal(2 * (x + y))
    assert a.to_dense().equal(x)
    with pytest.raises(RuntimeError, match="sparse"):
        a + y


def test_unsupported_operations_name_themselves_and_the_layout():
    with pytest.raises(NotImplementedError, match=r"exp.*sparse_coo"):
        DENSE.to_sparse().exp()
    with pytest.raises(NotImplementedError, match="sparse_csr"):
        DENSE.to_sparse_csr().view(-1)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.bfloat16, torch.int64])
def test_products(layout, dtype):
    dense, other = DENSE.to(dtype), torch.arange(12.0).reshape(4, 3).to(dtype)
    s = sparse(layout, dense)
    assert (s @ other).equal(dense @ other)
    assert (other.t() @ s.t()).equal(other.t() @ dense.t())
    assert (s @ other[:, 0]).equal(dense @ other[:, 0])
    assert (s @ sparse(torch.sparse_csr, other)).to_dense().equal(dense @ other)


def test_product_of_many_rows_uses_threads_correctly():
    dense = (torch.rand(3000, 200) > 0.95).float() * torch.rand(3000, 200)
    other = torch.rand(200, 64)
    assert dense.to_sparse_csr().matmul(other).allclose(dense @ other, atol=1e-5)


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_gradients_of_a_product(layout):
    s = sparse(layout).requires_grad_()
    other = torch.randn(4, 3, requires_grad=True)
    weight = torch.randn(2, 3)
    (torch.sparse.mm(s, other) * weight).sum().backward()
    full, same = DENSE.clone().requires_grad_(), other.detach().requires_grad_()
    ((full @ same) * weight).sum().backward()
    assert s.grad.layout is layout
    assert s.grad.to_dense().allclose(full.grad * (DENSE != 0))
    assert other.grad.allclose(same.grad)


def test_gradients_reach_values_and_dense_sources():
    held = torch.tensor([3.0, 4.0, 5.0], requires_grad=True)
    s = torch.sparse_coo_tensor([[0, 1, 0], [2, 0, 2]], held, (2, 3))
    (s.to_dense() * torch.arange(6.0).reshape(2, 3)).sum().backward()
    assert held.grad.tolist() == [2, 3, 2]
    x = DENSE.clone().requires_grad_()
    (x.to_sparse().values() ** 2).sum().backward()
    assert x.grad.equal(2 * DENSE)


def test_gradients_of_a_leaf_add_up():
    s = DENSE.to_sparse().requires_grad_()
    for _ in range(2):
        (s * 3).to_dense().sum().backward()
    assert s.grad.to_dense().equal(6.0 * (DENSE != 0))


def test_sampled_addmm():
    s = DENSE.to_sparse_csr()
    a, b = torch.randn(2, 5), torch.randn(5, 4)
    expected = (2 * DENSE + 3 * (a @ b)) * (DENSE != 0)
    assert torch.sparse.sampled_addmm(s, a, b, beta=2, alpha=3).to_dense().allclose(expected, atol=1e-5)


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
def test_product_with_reduction(reduce):
    other = torch.randn(4, 3)
    result = torch.sparse.mm(DENSE.to_sparse_csr(), other, reduce)
    products = [[DENSE[i, j] * other[j] for j in range(4) if DENSE[i, j]] for i in range(2)]
    expected = torch.stack([getattr(torch.stack(rows), reduce)(0) for rows in products])
    assert result.allclose(expected, atol=1e-6)


def test_softmax_leaves_missing_entries_out():
    result = torch.sparse.softmax(uncoalesced(), 1).values()
    assert result.allclose(torch.tensor([1.0, 0.2689414, 0.7310586]))
    assert torch.sparse.log_softmax(uncoalesced(), 1).values().allclose(result.log(), atol=1e-6)


def test_joining_and_selecting():
    s = DENSE.to_sparse()
    assert torch.cat([s, s]).to_dense().equal(torch.cat([DENSE, DENSE]))
    assert torch.stack([s, s]).to_dense().equal(torch.stack([DENSE, DENSE]))
    assert s[1].to_dense().equal(DENSE[1])
    wanted = torch.tensor([2, 0, 2])
    assert s.index_select(1, wanted).to_dense().equal(DENSE[:, wanted])


def test_text():
    assert repr(uncoalesced()) == (
        "tensor(indices=tensor([[0, 1, 1, 0],\n                       [2, 0, 2, 2]]),\n"
        "       values=tensor([3., 4., 5., 1.]),\n       size=(2, 3), nnz=4, layout=torch.sparse_coo)"
    )


def test_hash_tensor():
    assert torch.hash_tensor(torch.tensor([3, 5])).item() == 6
    assert torch.hash_tensor(torch.tensor([[1.0, 1.0]]), 1).tolist() == [0]


def test_differences_of_unlike_integers_do_not_wrap_around():
    x, y = torch.tensor([1, 0, 5]), torch.tensor([1, 0, 7])
    for a in (x.to(torch.int8).to_sparse(), x.to(torch.int8)):
        made = a - y.to(torch.uint8).to_sparse()
        assert made.dtype is torch.int16
        assert (made.to_dense() if made.is_sparse else made).tolist() == [0, 0, -2]


def test_dense_tensors_are_multiplied_in_place():
    x = torch.tensor([1, 2, 3])
    assert x.mul_(torch.tensor([1, 0, 2]).to_sparse()) is x and x.tolist() == [1, 0, 6]


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_zeros_of_a_sparse_layout(layout):
    x = torch.zeros(2, 3, layout=layout, dtype=torch.float64)
    assert x.layout is layout and x.dtype is torch.float64 and x.shape == (2, 3) and x._nnz() == 0
    assert not x.to_dense().any()
    with pytest.raises(RuntimeError):
        torch.ones(2, 3, layout=torch.sparse_coo)


def test_sums_of_ordered_places_are_merged():
    first = torch.sparse_coo_tensor([[0, 3, 4], [0, 2, 2]], torch.ones(3, 2), (6, 3, 2))
    second = torch.sparse_coo_tensor([[0, 1, 3, 4], [0, 1, 2, 2]], torch.full((4, 2), 2.0), (6, 3, 2))
    for total in (first + second, second + first):
        assert total._indices().tolist() == [[0, 1, 3, 4], [0, 1, 2, 2]] and not total.is_coalesced()
        assert total._values()[:, 0].tolist() == [3, 2, 3, 3]
    doubled = torch.sparse_coo_tensor([[4, 4]], torch.ones(2), (6,)) + torch.sparse_coo_tensor(
        [[4]], torch.ones(1), (6,)
    )
    assert doubled.to_dense()[4] == 3


def test_gradients_of_tensors_without_sparse_dimensions():
    values = torch.arange(10.0).reshape(5, 2).requires_grad_()
    made = torch.sparse_coo_tensor(torch.zeros(0, 5, dtype=torch.int64), values, (2,))
    other = torch.sparse_coo_tensor(torch.zeros(0, 5, dtype=torch.int64), torch.ones(5, 2), (2,))
    total = (made + other).coalesce()
    assert total.values().tolist() == [[25, 30]]
    total.values().backward(torch.tensor([[1.0, 2.0]]))
    assert values.grad.tolist() == [[1, 2]] * 5


def test_a_gradient_with_other_dense_dimensions_is_taken_as_it_reads():
    x = torch.ones(2, 2, requires_grad=True).to_sparse()
    copy = x.clone()
    copy.register_hook(lambda g: g.to_dense().to_sparse(1))
    (g,) = torch.autograd.grad((copy.to_dense() * torch.tensor([[1.0, 2.0], [3.0, 4.0]])).sum(), x)
    assert g.to_dense().tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], (2, 3), device="meta"),
        lambda: torch.sparse_coo_tensor(torch.empty(2, 2, dtype=torch.long, device="meta"), torch.ones(2, device="meta"), (2, 3)),
        lambda: torch.sparse_csr_tensor([0, 1, 2], [1, 0], [1.0, 2.0], (2, 3), device="meta"),
    ],
)  # fmt: skip
def test_without_elements(make):
    x = make()
    assert (x.shape, x.device.type, x.is_meta, x._nnz(), x._values().device.type) == ((2, 3), "meta", True, 2, "meta")
    assert x.to(torch.float64).dtype is torch.float64
    assert x.clone().layout is x.layout
    assert "device='meta', size=(2, 3)" in repr(x)
    assert torch.zeros_like(x).is_meta
    with pytest.raises(NotImplementedError):
        x.to("cpu")


def test_moved_to_where_there_are_no_elements():
    x = torch.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], (2, 3))
    made = [x.to("meta"), x.to_sparse_csr().to("meta"), torch.empty_like(x, device="meta")]
    made += [torch.zeros(2, 3, layout=kind, device="meta") for kind in (torch.sparse_coo, torch.sparse_csr)]
    assert all(t.is_meta and t.shape == (2, 3) and t._nnz() == 0 for t in made)
    with pytest.raises(NotImplementedError, match="no data"):  # the size would depend on the elements
        torch.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], device="meta")


@pytest.mark.parametrize("entries", [torch.float32, torch.float64])
def test_what_is_sparse_is_added_to_a_dense_tensor_where_it_has_entries(entries):
    table = torch.arange(12.0).reshape(4, 3)
    y = torch.sparse_coo_tensor([[2, 0, 2]], torch.tensor([[1.0] * 3, [2.0] * 3, [4.0] * 3], dtype=entries), (4, 3))
    want = table + y.to_dense().to(torch.float32)
    leaf = torch.nn.Parameter(table.clone())
    version, place = leaf._version, leaf.data_ptr()
    with torch.no_grad():
        assert leaf.add_(y) is leaf and torch.equal(leaf, want) and leaf.data_ptr() == place
        assert leaf._version == version + 1
        assert torch.equal(leaf.sub_(y, alpha=2), table - y.to_dense().to(torch.float32))
        assert torch.equal(table.t().contiguous().t().add_(y), want)  # rows that do not lie one after the other
    with pytest.raises(RuntimeError, match="same size"):
        table[:2].add_(y)


def test_a_step_by_sparse_gradients_leaves_the_rest_of_a_table():
    bag = torch.nn.EmbeddingBag(6, 2, mode="sum", sparse=True)
    before = bag.weight.detach().clone()
    bag(torch.tensor([1, 4, 1]), torch.tensor([0])).sum().backward()
    torch.optim.SGD(bag.parameters(), 0.5).step()
    moved = torch.zeros(6, 2)
    moved[1], moved[4] = 1.0, 0.5
    torch.testing.assert_close(bag.weight.detach(), before - moved)


def test_conjugates_of_sparse_tensors():
    x = torch.tensor([1 + 2j, 0]).to_sparse()
    assert x.conj().to_dense().tolist() == [1 - 2j, 0]
    for t in (x, x.conj()):
        with pytest.raises(TypeError, match=r"Use Tensor\.to_dense"):
            t.numpy()
    assert "dtype" not in repr(x) and "dtype" in repr(x.to(torch.complex128))
