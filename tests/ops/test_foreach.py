"""Operations over lists of tensors: the same as one by one."""

import pytest

import flambeau as torch

UNARY = [
    "abs",
    "ceil",
    "cos",
    "erf",
    "exp",
    "expm1",
    "floor",
    "frac",
    "lgamma",
    "log1p",
    "neg",
    "reciprocal",
    "round",
    "sigmoid",
    "sign",
    "sin",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]


def lists():
    return [torch.tensor([0.5, 0.25]), torch.tensor([[0.75], [0.125]])], [
        torch.tensor([2.0, 3.0]),
        torch.tensor([[4.0], [5.0]]),
    ]


def same(found, expected):
    assert len(found) == len(expected) and all(torch.equal(a, b) for a, b in zip(found, expected))


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    x, _ = lists()
    expected = [getattr(torch, name)(t) for t in x]
    found = getattr(torch, "_foreach_" + name)(x)
    assert isinstance(found, tuple)
    same(found, expected)
    assert getattr(torch, f"_foreach_{name}_")(x) is x
    same(x, expected)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "minimum", "clamp_min", "clamp_max", "pow"])
@pytest.mark.parametrize("kind", ["tensors", "number", "numbers"])
def test_binary(name, kind):
    x, y = lists()
    other = {"tensors": y, "number": 2.0, "numbers": [2.0, 3.0]}[kind]
    partners = [other] * 2 if kind == "number" else other
    one = {"maximum": torch.clamp_min, "minimum": torch.clamp_max}.get(name) or getattr(torch, name)
    expected = [one(t, o) for t, o in zip(x, partners)]
    same(getattr(torch, "_foreach_" + name)(x, other), expected)
    getattr(torch, f"_foreach_{name}_")(x, other)
    same(x, expected)


def test_alpha_and_a_number_to_powers():
    x, y = lists()
    same(torch._foreach_add(x, y, alpha=2), [a + 2 * b for a, b in zip(x, y)])
    same(torch._foreach_pow(2.0, y), [2.0**t for t in y])


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_ternary(name):
    x, y = lists()
    one = getattr(torch, name)
    for given, values in ((2.0, [2.0, 2.0]), ([1.0, 3.0], [1.0, 3.0]), (torch.tensor([1.0, 3.0]), [1.0, 3.0])):
        same(
            getattr(torch, "_foreach_" + name)(x, y, y, given), [one(a, b, b, value=v) for a, b, v in zip(x, y, values)]
        )


def test_the_rest():
    x, y = lists()
    same(torch._foreach_lerp(x, y, 0.5), [torch.lerp(a, b, 0.5) for a, b in zip(x, y)])
    same(torch._foreach_norm(x, 1), [t.abs().sum() for t in x])
    same(torch._foreach_max(x), [t.max() for t in x])
    same(torch._foreach_powsum(x, 3), [(t**3).sum() for t in x])
    torch._foreach_copy_(x, y)
    same(x, y)
    torch._foreach_zero_(x)
    assert not any(t.any() for t in x)


def test_gradients_flow():
    x = [torch.ones(2, requires_grad=True)]
    torch._foreach_mul(x, 3.0)[0].sum().backward()
    assert x[0].grad.tolist() == [3, 3]


def test_errors():
    x, y = lists()
    with pytest.raises(RuntimeError, match="same number of tensors, got 2 and 1"):
        torch._foreach_add(x, y[:1])
    with pytest.raises(RuntimeError, match="scalar list"):
        torch._foreach_add(x, [1.0])
    for scalars, text in (
        (torch.tensor(3.0), "dimension 1. Got 0"),
        (torch.ones(1), "to match input of length 2 but got 1"),
    ):
        with pytest.raises(RuntimeError, match=text):
            torch._foreach_addcdiv(x, y, y, scalars)
    with pytest.raises(RuntimeError, match="at least one"):
        torch._foreach_abs([])
    for bad in (3, torch.ones(2), [1.0]):
        with pytest.raises(TypeError):
            torch._foreach_abs(bad)


def test_one_value_may_be_a_tensor_and_weights_have_a_name():
    ones = [torch.ones(2)]
    assert torch._foreach_addcmul(ones, ones, ones, value=torch.tensor(3.0))[0].tolist() == [4.0, 4.0]
    assert torch._foreach_lerp(ones, [torch.zeros(2)], weights=[torch.ones(2)])[0].tolist() == [0.0, 0.0]
