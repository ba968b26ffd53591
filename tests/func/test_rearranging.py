"""`torch.func.rearrange`: patterns of names."""

import pytest

import flambeau as torch


@pytest.mark.parametrize(
    "pattern, lengths, expected",
    [
        ("a b c -> b (a c)", {}, lambda x: x.permute(1, 0, 2).reshape(3, 8)),
        ("a b (c d) -> a d b c", {"c": 2}, lambda x: x.reshape(2, 3, 2, 2).permute(0, 3, 1, 2)),
        ("a ... -> ... a", {}, lambda x: x.permute(1, 2, 0)),
        ("... c -> (...) c", {}, lambda x: x.reshape(6, 4)),
        ("a b c -> a 1 (b c) ()", {}, lambda x: x.reshape(2, 1, 12, 1)),
        ("a b c -> (1 a) (b 1 c)", {}, lambda x: x.reshape(2, 12)),
        (
            "(a 1) b (c d) -> (d b) (1) (a c)",
            {"c": 2, "d": 2},
            lambda x: x.reshape(2, 3, 2, 2).permute(3, 1, 0, 2).reshape(6, 1, 4),
        ),
    ],
)
def test_rearrange(pattern, lengths, expected):
    x = torch.arange(24).reshape(2, 3, 4)
    assert torch.equal(torch.func.rearrange(x, pattern, **lengths), expected(x))


def test_rearrange_of_a_list():
    x = torch.arange(24).reshape(2, 3, 4)
    assert torch.equal(torch.func.rearrange([x, x + 1], "n a b c -> a n b c"), torch.stack([x, x + 1], 1))


@pytest.mark.parametrize(
    "pattern",
    [
        "a b c",
        "a b -> b a",
        "a b c -> a b",
        "a a c -> a c",
        "a b c -> (a b c",
        "a b (c d) -> a b c d",
        "a-b -> a",
        "(a (b c -> a b c",
        "a b c) -> a b c",
        "a b c -> a b (c ...)",
        "... (a ...) -> a",
    ],
)
def test_rearrange_errors(pattern):
    with pytest.raises(ValueError):
        torch.func.rearrange(torch.zeros(2, 3, 4), pattern)
