"""Embedding and EmbeddingBag: values, gradients dense and sparse, padding, norms, what fails."""

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.autograd import gradcheck, gradgradcheck


def table(rows=7, width=3, dtype=torch.float32):
    return torch.tensor(np.random.default_rng(0).normal(size=(rows, width)), dtype=dtype)


def test_drawn_from_the_normal_distribution():
    torch.manual_seed(3)
    layer = nn.Embedding(100, 50, padding_idx=-1)
    torch.manual_seed(3)
    expected = torch.randn(100, 50)
    assert torch.equal(layer.weight[:-1], expected[:-1]) and not layer.weight[99].any()
    assert layer.padding_idx == 99
    assert nn.Embedding(3, 2, dtype=torch.float64).weight.dtype is torch.float64


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("shape", [(), (4,), (2, 3), (0,), (2, 0)])
def test_rows(shape, dtype):
    weight = table()
    index = torch.tensor(np.random.default_rng(1).integers(0, 7, shape), dtype=dtype)
    out = nn.Embedding.from_pretrained(weight)(index)
    assert out.shape == (*shape, 3) and np.array_equal(out.numpy(), weight.numpy()[index.numpy()])
    assert torch.equal(nn.functional.embedding(index, weight.t().contiguous().t()), out)


def expected_gradient(index, g, rows, padding=None):
    made = np.zeros((rows, g.shape[-1]))
    np.add.at(made, index.reshape(-1), g.reshape(-1, g.shape[-1]))
    if padding is not None:
        made[padding] = 0
    return made


@pytest.mark.parametrize("rows", [7, 3000])
def test_gradient(rows):
    """A large table is filled by several threads."""
    index = torch.tensor(np.random.default_rng(1).integers(0, rows, (50, 40)))
    layer = nn.Embedding(rows, 100, padding_idx=2)
    g = torch.randn(50, 40, 100)
    layer(index).backward(g)
    np.testing.assert_allclose(
        layer.weight.grad.numpy(), expected_gradient(index.numpy(), g.numpy(), rows, 2), atol=1e-3
    )
    layer.weight.grad = None
    layer(index).sum().backward()
    expected = expected_gradient(index.numpy(), np.ones((50, 40, 100)), rows, 2)
    assert np.array_equal(layer.weight.grad.numpy(), expected)


def test_derivatives():
    weight, index = table(dtype=torch.float64).requires_grad_(), torch.tensor([[1, 1], [6, 0]])
    assert gradcheck(lambda w: nn.functional.embedding(index, w, 3), (weight,))
    assert gradgradcheck(lambda w: nn.functional.embedding(index, w, 3) ** 2, (weight,))


def test_gradient_divided_by_frequency():
    layer = nn.Embedding(5, 2, scale_grad_by_freq=True)
    layer(torch.tensor([1, 1, 1, 4])).sum().backward()
    assert layer.weight.grad[:, 0].tolist() == [0, 1, 0, 0, 1]


def test_sparse_gradient():
    layer = nn.Embedding(5, 2, sparse=True, padding_idx=0)
    index = torch.tensor([[1, 1], [0, 4]])
    (layer(index) * torch.tensor([1.0, 2.0])).sum().backward()
    g = layer.weight.grad
    assert g.is_sparse and g._nnz() == 3
    assert g.to_dense().tolist() == [[0, 0], [2, 4], [0, 0], [0, 0], [1, 2]]
    layer(index).sum().backward()
    assert layer.weight.grad.to_dense()[1].tolist() == [4, 6]


def test_long_rows_are_shortened():
    layer = nn.Embedding.from_pretrained(torch.tensor([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]]), max_norm=1.0)
    out = layer(torch.tensor([0, 1]))
    assert torch.allclose(out, torch.tensor([[0.6, 0.8], [0.3, 0.4]]), atol=1e-6)
    assert layer.weight[2].tolist() == [6.0, 8.0]  # not used


def test_rejects():
    layer = nn.Embedding(5, 2)
    for bad in ([5], [-1]):
        with pytest.raises(IndexError, match="out of range"):
            layer(torch.tensor(bad))
    with pytest.raises(RuntimeError, match="Long, Int"):
        layer(torch.tensor([1.0]))
    with pytest.raises(TypeError, match="Tensor"):
        layer([1])
    for padding in (5, -6):
        with pytest.raises(AssertionError, match="within num_embeddings"):
            nn.Embedding(5, 2, padding_idx=padding)
    with pytest.raises(AssertionError, match="2-dimensional"):
        nn.Embedding.from_pretrained(torch.zeros(3))
    with pytest.raises(AssertionError, match="Shape of weight"):
        nn.Embedding(3, 4, _weight=torch.zeros(2, 2))


def test_printed():
    assert repr(nn.Embedding(3, 4, padding_idx=-1)) == "Embedding(3, 4, padding_idx=2)"
    full = nn.Embedding(3, 4, max_norm=1.0, norm_type=1.0, scale_grad_by_freq=True, sparse=True)
    assert repr(full) == "Embedding(3, 4, max_norm=1.0, norm_type=1.0, scale_grad_by_freq=True, sparse=True)"
    assert repr(nn.EmbeddingBag(3, 4, padding_idx=1)) == "EmbeddingBag(3, 4, mode='mean', padding_idx=1)"


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(mode):
    weight = table()
    layer = nn.EmbeddingBag.from_pretrained(weight, mode=mode, freeze=False)
    assert layer.weight.requires_grad
    index, offsets = torch.tensor([1, 2, 4, 5, 4, 3]), torch.tensor([0, 4])
    reduce = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode]
    expected = np.stack([reduce(weight.numpy()[part], 0) for part in ([1, 2, 4, 5], [4, 3])])
    np.testing.assert_allclose(layer(index, offsets).detach().numpy(), expected, rtol=1e-6)
    layer(index.reshape(2, 3)).sum().backward()
    assert float(layer.weight.grad[0].abs().sum()) == 0 and float(layer.weight.grad.sum()) == pytest.approx(
        18 if mode == "sum" else 6
    )


def test_bags_with_weights_and_padding():
    weight = table()
    layer = nn.EmbeddingBag(7, 3, mode="sum", padding_idx=2, _weight=weight)
    index, factors = torch.tensor([[1, 2], [2, 2]]), torch.tensor([[0.5, 3.0], [1.0, 1.0]])
    out = layer(index, per_sample_weights=factors)
    assert torch.allclose(out[0], 0.5 * weight[1]) and not out[1].any()
    with pytest.raises(ValueError, match="mode"):
        nn.EmbeddingBag(3, 4, mode="other")(torch.tensor([[1]]))
    last = nn.EmbeddingBag.from_pretrained(weight, mode="sum", include_last_offset=True)
    assert torch.allclose(
        last(torch.tensor([1, 2, 3]), torch.tensor([0, 2, 3])), torch.stack([weight[1] + weight[2], weight[3]])
    )


@pytest.mark.parametrize(
    ("call", "error", "phrase"),
    [
        (lambda i, w, o: F.embedding_bag(i - 2, w, o), RuntimeError, "Expected idx >= 0 && idx < num_embeddings"),
        (lambda i, w, o: F.embedding_bag(i[None] - 2, w), RuntimeError, "found idx to be -1"),
        (lambda i, w, o: F.embedding_bag(i[None] + 9, w, mode="max"), RuntimeError, "found idx to be 10"),
        (lambda i, w, o: F.embedding_bag(i, w, o, padding_idx=12), RuntimeError, "within the number of embeddings, -10 through 9"),
        (lambda i, w, o: F.embedding_bag(i, w, -o), IndexError, "index out of range in self"),
        (lambda i, w, o: F.embedding_bag(i, w, torch.tensor([0, 3, 2])), RuntimeError, "offsets must not fall"),
        (lambda i, w, o: F.embedding_bag(i, w, o.float()), RuntimeError, "one of the following scalar types: Long, Int"),
        (lambda i, w, o: F.embedding_bag(i, w.long(), o), RuntimeError, "one of the following scalar types: Half, BFloat16, Float"),
        (lambda i, w, o: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=torch.ones(4).double()), RuntimeError, "to have the same type as"),
        (lambda i, w, o: F.embedding_bag(i, w, o, mode="max", sparse=True), ValueError, "max mode does not support sparse weights"),
        (lambda i, w, o: torch.embedding_bag(w, i, o[None]), RuntimeError, "offsets has to be a 1D Tensor"),
        (lambda i, w, o: torch.embedding_bag(w, i, o, mode=5), RuntimeError, "`mode` must be sum, mean, or max"),
    ],
)  # fmt: skip
def test_bags_that_cannot_be(call, error, phrase):
    with pytest.raises(error, match=phrase):
        call(torch.tensor([1, 2, 3, 4]), torch.ones(10, 2), torch.tensor([0, 2]))


def test_sparse_gradients_of_bags():
    weight = torch.arange(20.0).reshape(10, 2).requires_grad_()
    bag = F.embedding_bag(torch.tensor([1, 2, 3, 2]), weight, torch.tensor([0, 2]), mode="mean", sparse=True)
    bag.sum().backward()
    assert weight.grad.is_sparse and weight.grad.shape == (10, 2)
    assert weight.grad._indices().tolist() == [[1, 2, 3, 2]]
    assert weight.grad._values().tolist() == [[0.5, 0.5]] * 4
    with pytest.raises(RuntimeError, match="scale_grad_by_freq not supported with sparse gradients"):
        F.embedding_bag(torch.tensor([[1]]), weight, mode="sum", sparse=True, scale_grad_by_freq=True).sum().backward()


def test_sparse_gradients_of_an_empty_table():
    layer = nn.Embedding(10, 0, sparse=True)
    layer(torch.tensor([[0, 2], [4, 4]])).sum().backward()
    assert layer.weight.grad.is_sparse and layer.weight.grad.shape == (10, 0)


def test_embedding_bag_in_the_old_order_of_its_arguments():
    weight = torch.tensor([[1.0], [3.0], [5.0]], requires_grad=True)
    with pytest.warns(UserWarning, match="Argument order of nn.functional.embedding_bag was changed"):
        out = torch.nn.functional.embedding_bag(weight, torch.tensor([[0, 2]]), sparse=True)
    out.sum().backward()
    assert out.tolist() == [[3.0]] and weight.grad.to_dense().tolist() == [[0.5], [0.0], [0.5]]


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("last", [False, True])
def test_bags_that_begin_at_offsets_are_added_up_in_one_pass_as_by_operations(mode, last):
    """Per-sample weights of 1, and means by sizes, take the long way."""
    torch.manual_seed(0)
    weight, index = torch.randn(11, 5, dtype=torch.float64, requires_grad=True), torch.randint(0, 11, (20,))
    offsets = torch.tensor([0, 3, 3, 9] + [20] * last)
    sizes = torch.tensor([3, 1, 6, 11], dtype=torch.float64)[:, None]
    out = F.embedding_bag(index, weight, offsets, mode=mode, include_last_offset=last)
    ones = torch.ones(20, dtype=torch.float64)
    long = F.embedding_bag(index, weight, offsets, mode="sum", per_sample_weights=ones, include_last_offset=last)
    long = long / sizes if mode == "mean" else long
    torch.testing.assert_close(out, long)
    g = torch.randn(4, 5, dtype=torch.float64)
    torch.testing.assert_close(torch.autograd.grad(out, weight, g), torch.autograd.grad(long, weight, g))
    twice = lambda w: F.embedding_bag(index, w * w, offsets, mode=mode, include_last_offset=last)
    assert torch.autograd.gradgradcheck(twice, (weight,))
    with pytest.raises(RuntimeError, match="found idx to be 12"):
        F.embedding_bag(torch.full_like(index, 12), weight, offsets, mode=mode, include_last_offset=last)


def test_no_bags():
    none = torch.zeros(0, dtype=torch.int64)
    assert F.embedding_bag(none, torch.ones(3, 2), none, mode="sum").shape == (0, 2)
