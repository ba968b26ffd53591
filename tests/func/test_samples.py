"""Corners of mapped functions: dtypes of numbers, strides, sizes, and what functions on modules are given."""

import pytest

import flambeau as torch
from flambeau import nn


def test_dictionaries_of_a_functional_call():
    layer, x = nn.Linear(2, 1), torch.tensor([[3.0, 4.0]])
    weight, bias = {"weight": torch.ones(1, 2)}, {"bias": torch.zeros(1)}
    for given in ([weight, bias], (weight, bias), {**weight, **bias}):
        assert torch.func.functional_call(layer, given, x).tolist() == [[7.0]]
    with pytest.raises(ValueError, match="to be a dict, or a list/tuple of dicts"):
        torch.func.functional_call(layer, 3, x)
    with pytest.raises(ValueError, match="appeared in multiple dictionaries"):
        torch.func.functional_call(layer, [weight, weight], x)


def test_strides_of_new_samples_by_name_and_of_tensors_that_are_not_mapped():
    x, seen = torch.arange(12.0).reshape(3, 4), []

    def made(a):
        new = a.new_empty_strided((2, 3), (1, 2))
        seen.append(new.stride())
        return new

    out = torch.vmap(made)(x)
    assert seen == [(1, 2)] and out.shape == (3, 2, 3) and out.stride() == (6, 1, 2)
    constant = torch.ones(2)
    found = torch.vmap(lambda a: constant.new_empty_strided((2,), (1,)).fill_(1) + a[:2])(x)
    assert found.tolist() == [[1, 2], [5, 6], [9, 10]]


@pytest.mark.parametrize(
    ("numbers", "other", "expected"),
    [
        (torch.tensor([1.0, 2.0], dtype=torch.float64), torch.ones(2), torch.float32),
        (torch.tensor([1, 2]), torch.ones(2), torch.float32),
        (torch.tensor([1j, 2]), torch.ones(2, dtype=torch.float64), torch.complex128),
        (torch.tensor([1.0, 2.0]), torch.ones(2, dtype=torch.int64), torch.float32),
        (torch.tensor([True, False]), torch.ones(2, dtype=torch.int32), torch.int32),
    ],
)
def test_a_number_of_each_sample_does_not_decide_the_dtype(numbers, other, expected):
    out = torch.vmap(lambda a, b: a + b, in_dims=(0, None))(numbers, other)
    assert out.dtype is expected and out.tolist() == [[n + 1] * 2 for n in numbers.tolist()]


def test_a_condition_of_each_sample():
    x = torch.arange(12.0).reshape(3, 4)
    chosen = torch.tensor([True, False, True])
    out = torch.vmap(lambda c, a: torch.where(c, a, -a))(chosen, x)
    assert out.tolist() == [[0, 1, 2, 3], [-4, -5, -6, -7], [8, 9, 10, 11]]
    assert torch.vmap(lambda c, a: torch.where(c, a, 1))(chosen, x).dtype is torch.float32


def test_samples_of_another_size():
    x = torch.arange(12.0).reshape(3, 4)
    assert torch.vmap(lambda a: a.clone().resize_(2, 2))(x).tolist() == x.reshape(3, 2, 2).tolist()
    assert torch.vmap(lambda a: a.clone().resize_(2))(x).tolist() == x[:, :2].tolist()
    assert torch.vmap(lambda a: a.clone().resize_(6)[:4])(x).tolist() == x.tolist()


def test_samples_filled_with_a_number_each():
    x, numbers = torch.arange(12.0).reshape(3, 2, 2), torch.tensor([1.0, 2.0, 3.0])
    expected = numbers[:, None, None].expand(3, 2, 2).tolist()
    assert torch.vmap(lambda a, n: a.clone().fill_(n))(x, numbers).tolist() == expected
    assert torch.vmap(torch.fill)(x, numbers).tolist() == expected
    found = torch.vmap(lambda a, n: a.masked_fill(a > 1, n))(x.reshape(3, 4), numbers)
    assert found.tolist() == [[0, 1, 1, 1], [2, 2, 2, 2], [3, 3, 3, 3]]


def test_only_batch_norms_forget_their_statistics():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.LayerNorm(2))
    assert torch.func.replace_all_batch_norm_modules_(model) is model
    norm = model[1]
    assert (norm.track_running_stats, norm.running_mean, norm.running_var, norm.num_batches_tracked) == (
        False,
        None,
        None,
        None,
    )
    assert not hasattr(model[0], "track_running_stats") and not hasattr(model[2], "running_mean")
