"""Inside vmap nobody reads a batch's values as if they were one sample's: rules, or every sample, or an error."""

import pytest

import flambeau as torch
from flambeau.func import vmap

A = torch.arange(12.0).reshape(3, 4)
I = torch.tensor([0, 2, 1])


def _zeroed(b):
    b = b.clone()
    b[b.argmin()] = -1.0
    return b


def _numbered(b, i):
    b = b.clone()
    b[i] = i.float() * 10
    return b


GIVEN = {
    "a[i] of a sample": (lambda: vmap(lambda a, i: a[i])(A, I), [0.0, 6.0, 9.0]),
    "a[i]": (lambda: vmap(lambda i: A[i])(I), A[I].tolist()),
    "a[i, j]": (lambda: vmap(lambda i, j: A[i, j])(I, I), [0.0, 10.0, 5.0]),
    "a[i, :2]": (lambda: vmap(lambda i: A[i, :2])(I), A[I, :2].tolist()),
    "a[:, i]": (lambda: vmap(lambda i: A[:, i])(I), A[:, I].T.tolist()),
    "a[argmin] = number": (lambda: vmap(_zeroed)(A), [[-1, 1, 2, 3], [-1, 5, 6, 7], [-1, 9, 10, 11]]),
    "a[i] = tensor": (lambda: vmap(_numbered)(A, I), [[0, 1, 2, 3], [4, 5, 20, 7], [8, 10, 10, 11]]),
    "histc": (lambda: vmap(lambda x: torch.histc(x, 4))(A), [[1.0] * 4] * 3),
    "edges": (lambda: vmap(lambda x: torch.histogram(x, 1))(A).bin_edges, [[0, 3], [4, 7], [8, 11]]),
    "nonzero_static": (
        lambda: vmap(lambda x: torch.nonzero_static(x, size=2))(A)[..., 0], [[1, 2], [0, 1], [0, 1]],
    ),
    "linspace": (lambda: vmap(lambda x: torch.linspace(0, x, 3))(I.float()), [[0, 0, 0], [0, 1, 2], [0, 0.5, 1]]),
    "resize_": (
        lambda: vmap(lambda x: x.clone().resize_(2, 2))(A), [[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[8, 9], [10, 11]]],
    ),
    "bincount": (lambda: vmap(lambda x: x.bincount(minlength=3))(torch.tensor([[0, 2], [1, 1]])), [[1, 0, 1], [0, 2, 0]]),
    "mask = number": (
        lambda: vmap(lambda x: x.clone().masked_fill_(x > 5, 0.0))(A), [[0, 1, 2, 3], [4, 5, 0, 0], [0, 0, 0, 0]],
    ),
    "as_strided": (lambda: vmap(lambda x: x.as_strided((2,), (2,)))(A), [[0, 2], [4, 6], [8, 10]]),
    "all together": (lambda: vmap(lambda x: x + (1 if (x >= 0)._is_all_true() else 0))(I), [1, 3, 2]),
}  # fmt: skip


@pytest.mark.parametrize("name", GIVEN)
def test_each_sample_has_its_own(name):
    function, expected = GIVEN[name]
    assert function().tolist() == expected


def test_views_of_samples_are_views_of_the_batch():
    def f(x):
        x = x.clone()
        x.as_strided((2,), (2,)).zero_()
        return x

    assert vmap(f)(A).tolist() == [[0, 1, 0, 3], [0, 5, 0, 7], [0, 9, 0, 11]]


def test_gradients_of_indexed_samples():
    x = A.clone().requires_grad_()
    vmap(lambda a, i: a[i] * 2)(x, I).sum().backward()
    assert x.grad.nonzero().tolist() == [[0, 0], [1, 2], [2, 1]]
    assert x.grad.sum() == 6


ITEM, BRANCH, DYNAMIC = "calling .item", "data-dependent control flow", "dynamic shape"
REFUSED = {
    "int": (int, ITEM), "float": (float, ITEM), "complex": (complex, ITEM), "item": (lambda x: x.item(), ITEM),
    "range": (lambda x: range(x.long()), ITEM), "bool": (bool, BRANCH), "if": (lambda x: x if x > 0 else -x, BRANCH),
    "is_nonzero": (lambda x: x.is_nonzero(), BRANCH), "tolist": (lambda x: x.tolist(), ITEM),
    "slice": (lambda x: A[0, x.long() :], None), "equal": (lambda x: torch.equal(x, x), None),
    "numpy": (lambda x: x.numpy(), None), "data_ptr": (lambda x: x.data_ptr(), "data pointer"),
    "nonzero": (lambda x: (A * x).nonzero(), DYNAMIC), "mask": (lambda x: A[x < A], DYNAMIC),
    "masked_select": (lambda x: A.masked_select(x < A), DYNAMIC), "unique": (lambda x: (A * x).unique(), DYNAMIC),
    "write into what is not mapped": (lambda x: torch.zeros(4).index_fill_(0, I, x), "not possible because there exists"),
    "one_hot": (lambda x: torch.nn.functional.one_hot(x.long()), "num_classes"),
    "data": (lambda x: x.data, None),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_reading_values_raises(name):
    function, phrase = REFUSED[name]
    with pytest.raises(RuntimeError, match=phrase):
        vmap(function)(torch.tensor([1.0, 2.0, 3.0]))


def test_samples_that_run_alone_have_random_numbers_as_asked():
    def f(x):
        return torch.bernoulli(torch.linspace(0, x, 40))

    ends = torch.ones(3)
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(f)(ends)
    different = vmap(f, randomness="different")(ends)
    assert len({tuple(row) for row in different.tolist()}) == 3


def test_the_shape_is_known_and_the_rest_is_not():
    def f(x):
        assert x.shape == (4,) and x.stride() == (1,) and x.is_contiguous() and x.dtype is torch.float32
        assert repr(x).startswith("BatchedTensor(lvl=1, bdim=0, value=\n    tensor([[ 0.,")
        return x

    assert vmap(f)(A).equal(A)


def test_tensors_that_left_vmap_are_not_used():
    kept = []
    vmap(lambda x: kept.append(x) or x)(A)
    with pytest.raises(RuntimeError, match="escaped from inside a function being vmapped"):
        kept[0].sin()


def test_refused_writes_are_named():
    with pytest.raises(RuntimeError, match="out-of-place operators instead of add_"):
        vmap(lambda x: torch.zeros(4).add_(x))(A)


def test_chunks_draw_the_same_numbers_where_samples_do():
    made = vmap(lambda x: torch.rand(2) + 0 * x[:2], randomness="same", chunk_size=1)(A)
    assert made[0].equal(made[1]) and made[0].equal(made[2])


def test_tangents_of_samples_do_not_look_into_each_other():
    """A view by strides that fits into the memory of a tensor may not fit into that of its batched tangent."""
    primal = torch.randn(5)[:4]

    def push(tangent):
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(primal, tangent)
            inside = torch.autograd.forward_ad.unpack_dual(dual.as_strided((2, 2), (2, 1), 0)).tangent
            with pytest.raises(RuntimeError, match="can access memory outside of `tensor`"):
                dual.as_strided((5,), (1,), 0)
            return inside

    tangents = torch.randn(10, 4)
    assert torch.equal(torch.vmap(push)(tangents), tangents.view(10, 2, 2))
