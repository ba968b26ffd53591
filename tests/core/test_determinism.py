"""What `use_deterministic_algorithms` demands: memory that is not filled is filled, what might vary raises."""

import pytest

import flambeau as torch
import flambeau.nn.functional as F


@pytest.fixture(autouse=True)
def demanded():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = True


@pytest.mark.parametrize(
    "make",
    [
        lambda d: torch.empty(3, 2, dtype=d),
        lambda d: torch.empty(3, 2, out=torch.zeros(3, 2, dtype=d)),
        lambda d: torch.empty_like(torch.zeros(3, 2, dtype=d)),
        lambda d: torch.zeros(1, dtype=d).new_empty(3, 2),
        lambda d: torch.empty_strided((3, 2), (1, 3), dtype=d),
        lambda d: torch.empty_permuted((3, 2), (1, 0), dtype=d),
        lambda d: torch.zeros(0, dtype=d).resize_(3, 2),
    ],
)
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.complex64, torch.int8, torch.uint16, torch.bool]
)
def test_memory_is_filled(make, dtype):
    made = make(dtype)
    if dtype.is_floating_point or dtype.is_complex:
        assert made.isnan().all()
    else:
        assert (made == (True if dtype is torch.bool else torch.iinfo(dtype).max)).all()


def test_it_can_be_left_unfilled(monkeypatch):
    torch.utils.deterministic.fill_uninitialized_memory = False
    grown = torch.zeros(4).resize_(2).resize_(4)
    assert grown.tolist() == [0.0] * 4
    assert torch.zeros(2).tolist() == [0.0, 0.0] and torch.ones(2).tolist() == [1.0, 1.0]


def test_what_might_vary_raises():
    place, value = torch.tensor([0]), torch.tensor([1.0])
    for call, name in (
        (lambda: torch.zeros(2).put_(place, value), "put_"),
        (lambda: F.max_unpool1d(torch.ones(1, 1, 1), torch.tensor([[[0]]]), 2), "max_unpooling2d_forward_out"),
        (lambda: F.max_unpool3d(torch.ones(1, 1, 1, 1, 1), torch.zeros(1, 1, 1, 1, 1).long(), 2), "max_unpooling3d"),
    ):
        with pytest.raises(RuntimeError, match=f"{name}.* does not have a deterministic implementation, but you set"):
            call()
    assert torch.zeros(2).put_(place, value, accumulate=True).tolist() == [1.0, 0.0]
    torch.use_deterministic_algorithms(True, warn_only=True)
    with pytest.warns(UserWarning, match="put_ does not have a deterministic implementation"):
        assert torch.zeros(2).put_(place, value).tolist() == [1.0, 0.0]
