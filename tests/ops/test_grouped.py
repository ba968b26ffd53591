"""Grouped products against products of each group."""

import pytest

import flambeau as torch

grouped_mm = torch.nn.functional.grouped_mm
ENDS = torch.tensor([2, 3, 6], dtype=torch.int32)
GROUPS = [(0, 2), (2, 3), (3, 6)]


def test_rows():
    a, b = torch.randn(6, 4), torch.randn(3, 4, 5)
    made = grouped_mm(a, b, offs=ENDS)
    for i, (start, stop) in enumerate(GROUPS):
        assert torch.allclose(made[start:stop], a[start:stop] @ b[i], atol=1e-6)
    assert grouped_mm(torch.randn(8, 4), b, offs=ENDS)[6:].tolist() == [[0.0] * 5] * 2


def test_columns_and_inner_groups():
    a, b = torch.randn(3, 2, 4), torch.randn(4, 6)
    made = grouped_mm(a, b, offs=ENDS)
    for i, (start, stop) in enumerate(GROUPS):
        assert torch.allclose(made[:, start:stop], a[i] @ b[:, start:stop], atol=1e-6)
    a, b = torch.randn(2, 6), torch.randn(6, 3)
    made = grouped_mm(a, b, offs=ENDS)
    for i, (start, stop) in enumerate(GROUPS):
        assert torch.allclose(made[i], a[:, start:stop] @ b[start:stop], atol=1e-6)
    assert torch.allclose(made.sum(0), a @ b, atol=1e-5)


def test_gradient():
    a = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    b = torch.randn(3, 4, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a, b: grouped_mm(a, b, offs=ENDS), (a, b))


@pytest.mark.parametrize(
    "a, b, options",
    [
        (torch.ones(6, 4), torch.ones(3, 4, 5), {}),
        (torch.ones(3, 2, 4), torch.ones(3, 4, 5), {"offs": ENDS}),
        (torch.ones(6, 4), torch.ones(3, 4, 5), {"offs": ENDS.long()}),
        (torch.ones(5, 4), torch.ones(3, 4, 5), {"offs": ENDS}),
        (torch.ones(6, 4), torch.ones(2, 4, 5), {"offs": ENDS}),
        (torch.ones(6, 4).double(), torch.ones(3, 4, 5), {"offs": ENDS}),
        (torch.ones(6, 3), torch.ones(3, 4, 5), {"offs": ENDS}),
    ],
)
def test_errors(a, b, options):
    with pytest.raises(RuntimeError):
        grouped_mm(a, b, **options)
