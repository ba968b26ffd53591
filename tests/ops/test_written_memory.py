"""What may be written where memory is shared: arguments that overlap the written tensor, and expanded tensors."""

import pytest

import flambeau as torch

INDEX = torch.tensor([2, 1, 0])


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.index_add_(0, INDEX, x[:3]),
        lambda x: x.index_copy_(0, torch.arange(6), x),
        lambda x: x.scatter_(0, INDEX, x),
        lambda x: x.scatter_add_(0, INDEX, x),
        lambda x: x.scatter_reduce_(0, INDEX, x, "sum"),
        lambda x: x.index_reduce_(0, torch.arange(6), x, "prod"),
        lambda x: x.put_(INDEX[0], x[0]),
        lambda x: x.put_(INDEX, x[:3]),
        lambda x: x.index_put_((INDEX,), x[0]),
        lambda x: x.__setitem__(INDEX, x[3:]),
        lambda x: x.__setitem__(x > 2, x),
    ],
)
def test_written_piece_by_piece_from_its_own_memory(write):
    with pytest.raises(RuntimeError, match="unsupported operation: some elements of the input tensor"):
        write(torch.arange(6.0))


def test_an_index_that_is_written():
    for write in (
        lambda i: i.index_add_(0, i, i.clone()),
        lambda i: i.index_fill_(0, i, 0),
        lambda i: i.put_(i, i.clone()),
        lambda i: i.__setitem__(i, 5),
        lambda i: i.scatter_(0, i, i.clone()),
    ):
        with pytest.raises(RuntimeError, match="unsupported operation"):
            write(torch.tensor([2, 1, 0]))
    mask = torch.tensor([True, False, True])
    with pytest.raises(RuntimeError, match="unsupported operation"):
        mask[1:].masked_fill_(mask[:-1], False)


def test_what_is_read_first_may_be_shared():
    x = torch.arange(6.0)
    assert x.clone().masked_fill_(x > 3, x[1]).tolist() == [0, 1, 2, 3, 1, 1]
    y = torch.arange(6.0)
    assert y.masked_fill_(y > 3, y[1]).tolist() == [0, 1, 2, 3, 1, 1]
    assert y.index_fill_(0, INDEX, y[3]).tolist() == [3, 3, 3, 3, 1, 1]
    z = torch.arange(4.0)
    assert z.masked_scatter_(z > 1, z[:3]).tolist() == [0, 1, 0, 1]
    w = torch.arange(12.0).view(3, 4)  # neither side is dense: PyTorch does not ask
    assert w[:, 0].index_copy_(0, torch.arange(3), w[:, 1]).tolist() == [1, 5, 9]


def test_expanded_tensors():
    mask = torch.tensor([True, False, True])
    for write, name, expected in (
        (lambda x: x.masked_fill_(mask, 9.0), "masked_fill_", 9),
        (lambda x: x.index_put_((torch.tensor([0, 1]),), torch.tensor([3.0, 4.0])), "index_put_", 4),
        (lambda x: x.index_fill_(0, torch.tensor([0]), 7.0), "index_fill_", 7),
    ):
        x = torch.ones(1).expand(3)
        with pytest.warns(UserWarning, match=f"Use of {name} on expanded tensors is deprecated"):
            write(x)
        assert x.tolist() == [expected] * 3
    for write in (
        lambda x: x.index_copy_(0, INDEX, torch.zeros(3)),
        lambda x: x.put_(INDEX, torch.zeros(3)),
        lambda x: x.scatter_(0, INDEX, torch.zeros(3)),
        lambda x: x.masked_scatter_(mask, torch.zeros(3)),
    ):
        with pytest.raises(RuntimeError, match="single memory location"):
            write(torch.ones(1).expand(3))


def test_large_operands_in_place():
    """Those that threads share are written at once, too: the same numbers, and the same refusals."""
    x = torch.arange(360_000.0).reshape(600, 600)
    assert torch.equal(x.clone().add_(x), x + x)
    assert torch.equal(x.clone().mul_(0.5), x * 0.5)
    assert torch.equal(x.clone().add_(x[0]), x + x[0])
    assert torch.equal(x.clone().t().mul_(x), x.t() * x)
    assert torch.equal(torch.sub(x, x[:, :1], out=torch.empty(600, 600)), x - x[:, :1])
    y = x.clone()
    version = y._version
    y.add_(y)
    assert y._version == version + 1 and torch.equal(y, 2 * x)
    with pytest.raises(RuntimeError, match=r"output with shape \[600, 600\] doesn't match the broadcast shape"):
        y.add_(torch.ones(2, 600, 600))
    with pytest.raises(RuntimeError, match="unsupported operation"):
        y[1:].add_(y[:-1])
    with pytest.raises(RuntimeError, match="must match the size"):
        y.add_(torch.ones(599, 600))


def test_rows_and_copies_must_fit():
    one, none = torch.ones(1), torch.tensor(1.0)
    for write in (
        lambda: one.index_add_(0, INDEX[:1], none),
        lambda: none.index_reduce_(0, INDEX[:1] * 0, one, "prod"),
    ):
        with pytest.raises(RuntimeError, match="source tensor shape must match self tensor shape"):
            write()
    assert torch.zeros(3).index_copy_(0, INDEX[:1], none).tolist() == [0, 0, 1]
    for shape in ((3,), ()):
        with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
            torch.zeros(shape).copy_(torch.ones(1, *shape))
        x = torch.zeros(shape)
        x[...] = torch.ones(1, *shape)  # item assignment leaves such dimensions out
        assert x.sum() == x.numel()
