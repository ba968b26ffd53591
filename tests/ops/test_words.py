"""Errors that programs look at: their types, and the words that PyTorch has for them."""

import pytest

import flambeau as torch


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: torch.hsplit(torch.ones(6, 6), 4), RuntimeError, "torch.hsplit attempted to split along dimension 1, but the size"),
        (lambda: torch.meshgrid(torch.ones(1), indexing="x"), RuntimeError, 'indexing must be one of "xy" or "ij", but received: x'),
        (lambda: torch.block_diag(torch.ones(1, 1, 1)), RuntimeError, "2 or fewer dimensions. Input 0 has 3 dimensions"),
        (lambda: torch.ones(3).as_strided((1,), (-1,)), RuntimeError, "Negative strides are not supported at the moment, got strides"),
        (lambda: torch.linspace(0, 1j, 3, dtype=torch.float32), RuntimeError, "inferred dtype torch.complex64 can't be safely cast"),
        (lambda: torch.zeros(3).random_(5, 3), RuntimeError, "random_ expects 'from' to be less than 'to', but got from=5 >= to=3"),
        (lambda: torch.zeros(3, dtype=torch.int8).random_(0, 300), RuntimeError, "to - 1 is out of bounds"),
        (lambda: torch.zeros(3, dtype=torch.int8).random_(-300, 3), RuntimeError, "from is out of bounds"),
        (lambda: torch.randperm(257, dtype=torch.uint8), RuntimeError, "does not fit"),
        (lambda: torch.ones(2).topk(1, True), TypeError, "must be int, not bool"),
        (lambda: torch.zeros(3).index_add_(0, torch.tensor([3]), torch.ones(1)), IndexError, "index out of range in self"),
        (lambda: torch.zeros(3, 1).index_add_(0, torch.tensor([3]), torch.ones(1, 1)), RuntimeError, "index 3 is out of bounds"),
        (lambda: torch.ones(4)[2**63], ValueError, "Overflow when unpacking long long"),
    ],
)  # fmt: skip
def test_words(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)


def test_all_numbers_of_a_byte_are_permuted():
    assert sorted(torch.randperm(256, dtype=torch.uint8).tolist()) == list(range(256))


def test_tensors_without_dimensions_are_numbers():
    x, one = torch.arange(8.0).reshape(2, 4), torch.tensor(1)
    assert x.roll(one)[0, 0] == 7 and x.roll(1, one)[0].tolist() == [3.0, 0.0, 1.0, 2.0]
    assert len(x.split(one)) == 2 and x.flip(one)[0, 0] == 3 and x.movedim(one, 0).shape == (4, 2)
    assert torch.combinations(torch.tensor([0, 1]), one).tolist() == [[0], [1]]
    assert torch.polygamma(one, torch.ones(1)).item() == pytest.approx(1.644934)
    assert torch.logspace(0, 1, 3, one).tolist() == [1.0, 1.0, 1.0]
    assert torch.nn.functional.adaptive_avg_pool1d(x[None], one).tolist() == [[[1.5], [5.5]]]
