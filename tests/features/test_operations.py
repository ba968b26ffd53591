"""Operations: arithmetic, broadcasting, products, reductions, joining."""

import time

import pytest

import flambeau as torch


def test_three_spellings_agree():
    a, b = torch.rand(2, 3) + 1, torch.rand(2, 3) + 1
    for name, made in (
        ("add", a + b),
        ("sub", a - b),
        ("mul", a * b),
        ("div", a / b),
        ("pow", a**b),
        ("matmul", a @ b.T),
    ):
        other = b.T if name == "matmul" else b
        assert torch.equal(getattr(torch, name)(a, other), made)
        assert torch.equal(getattr(a, name)(other), made)


def test_in_place_forms_return_the_tensor_itself():
    x = torch.ones(3)
    place = x.data_ptr()
    steps = [
        lambda: x.add_(1),
        lambda: x.mul_(2),
        lambda: x.fill_(3),
        lambda: x.copy_(torch.arange(3.0)),
        x.zero_,
        x.normal_,
    ]
    for step in steps:
        assert step() is x and x.data_ptr() == place
    x.zero_().add_(1).mul_(2)
    assert x.tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    "name, value, derivative",
    [
        ("sqrt", 0.5, 1.0), ("exp", 1.284025, 1.284025), ("log", -1.386294, 4.0), ("abs", 0.25, 1.0), ("tanh", 0.244919, 0.940015),
        ("sigmoid", 0.562177, 0.246134), ("relu", 0.25, 1.0), ("round", 0.0, 0.0), ("square", 0.0625, 0.5),
    ],
)  # fmt: skip
def test_elementwise_values_and_gradients(name, value, derivative):
    x = torch.tensor(0.25, requires_grad=True)
    y = getattr(torch, name)(x)
    y.backward()
    assert y.item() == pytest.approx(value, abs=1e-5) and x.grad.item() == pytest.approx(derivative, abs=1e-5)


def test_clamp_and_pow():
    x = torch.tensor([-1.0, 0.5, 2.0], requires_grad=True)
    x.clamp(min=0, max=1).sum().backward()
    assert x.grad.tolist() == [0, 1, 0]
    assert torch.clamp(x, min=0).tolist() == [0, 0.5, 2] and x.pow(2).tolist() == [1, 0.25, 4]


def test_broadcasting():
    col, row = torch.arange(3).reshape(3, 1), torch.arange(4).reshape(1, 4)
    assert (col + row).tolist() == [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5]]
    assert (torch.randn(32, 128) + torch.randn(128)).shape == (32, 128)
    assert (torch.tensor(2) * torch.ones(3, 4)).shape == (3, 4)
    with pytest.raises(RuntimeError):
        torch.ones(3, 4) + torch.ones(3)
    assert (torch.ones(3, 4) + torch.ones(3).reshape(3, 1)).shape == (3, 4)


def test_gradient_of_a_broadcast_bias_is_the_sum():
    bias = torch.zeros(10, requires_grad=True)
    (torch.randn(64, 10) + bias).sum().backward()
    assert bias.grad.tolist() == [64] * 10


def test_products():
    a, b = torch.rand(3, 4), torch.rand(4, 5)
    assert torch.equal(torch.mm(a, b), a @ b) and torch.equal(torch.matmul(a, b), a @ b)
    with pytest.raises(RuntimeError):
        torch.mm(torch.rand(2, 3, 4), b)
    assert torch.matmul(torch.rand(4), torch.rand(4)).shape == ()
    assert torch.matmul(a, torch.rand(4)).shape == (3,)
    assert torch.matmul(torch.rand(7, 1, 3, 4), torch.rand(6, 4, 5)).shape == (7, 6, 3, 5)


def test_einsum():
    a, b = torch.rand(3, 4, requires_grad=True), torch.rand(4, 5)
    made = torch.einsum("ik,kj->ij", a, b)
    assert torch.allclose(made, a @ b)
    made.sum().backward()
    assert torch.allclose(a.grad, b.sum(1).expand(3, 4))
    batch = torch.rand(2, 3, 4)
    assert torch.allclose(torch.einsum("bik,kj->bij", batch, b), batch @ b)
    square = torch.rand(3, 3)
    assert torch.allclose(torch.einsum("ii->i", square), square.diagonal())
    left, right = torch.rand(3), torch.rand(4)
    assert torch.allclose(torch.einsum("i,ij,j->", left, a, right), left @ a @ right)


def test_reductions():
    a = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert a.sum() == 21 and a.sum(dim=0).tolist() == [5, 7, 9]
    assert a.mean(dim=1, keepdim=True).tolist() == [[2], [5]]
    assert a.max() == 6 and a.min() == 1 and a.argmax() == 5
    values, indices = a.max(dim=1)
    assert values.tolist() == [3, 6] and indices.tolist() == [2, 2]
    assert a.argmax(dim=1).tolist() == [2, 2]
    assert a.var(dim=1).tolist() == [1, 1] and a.std(dim=1).tolist() == [1, 1]
    assert torch.tensor([3.0, 4.0]).norm() == 5
    assert (a > 5).any() and not (a > 5).all() and (a > 0).all(dim=1).tolist() == [True, True]


def test_sums_are_precise():
    x = torch.full((5_000_000,), 0.1)
    exact = 5_000_000 * float(x[0])
    assert abs(x.sum().item() / exact - 1) < 1e-4
    assert abs(x.sum(dtype=torch.float64).item() / exact - 1) < 1e-9
    a, b, c = (torch.tensor(v) for v in (1e8, -1e8, 1.0))
    assert (a + b) + c != a + (b + c)


def test_joining():
    a = torch.zeros(3, 4)
    assert torch.cat([a, a]).shape == (6, 4) and torch.stack([a, a]).shape == (2, 3, 4)
    assert torch.cat([a, a], dim=1).shape == (3, 8) and torch.stack([a, a], dim=-1).shape == (3, 4, 2)
    for join in (torch.cat, torch.stack):
        with pytest.raises(RuntimeError):
            join([a, torch.zeros(4, 5)])


def test_finite_values():
    x = torch.tensor([1.0, float("inf"), float("nan")])
    assert torch.isnan(x).tolist() == [False, False, True]
    assert torch.isinf(x).tolist() == [False, True, False]
    assert torch.isfinite(x).tolist() == [True, False, False]


def test_comparing_tensors_gives_python_bools():
    a = torch.ones(2)
    assert torch.equal(a, a.clone()) is True and torch.equal(a, torch.ones(3)) is False
    assert torch.allclose(a, a + 1e-9) is True and torch.allclose(a, a + 1) is False


def test_sampling_and_softmax():
    torch.manual_seed(0)
    drawn = torch.multinomial(torch.tensor([0.0, 3.0, 1.0]), 4000, replacement=True)
    assert (drawn == 0).sum() == 0 and 0.7 < (drawn == 1).float().mean() < 0.8
    x = torch.randn(5, 7)
    assert torch.allclose(torch.softmax(x, dim=1).sum(1), torch.ones(5))
    assert torch.allclose(torch.log_softmax(x, dim=1).exp().sum(1), torch.ones(5))


def test_minimum_norm_fit():
    torch.manual_seed(0)
    features, target = torch.randn(5, 9), torch.randn(5)
    weights = torch.linalg.pinv(features) @ target
    assert torch.allclose(features @ weights, target, atol=1e-4)
    other = weights + torch.linalg.svd(features)[2][-1]
    assert torch.allclose(features @ other, target, atol=1e-4) and weights.norm() < other.norm()


def test_one_operation_beats_a_loop():
    a, b = torch.rand(200_000), torch.rand(200_000)
    start = time.perf_counter()
    for i in range(1000):
        a[i] + b[i]
    loop = (time.perf_counter() - start) * 200
    times = []
    for _ in range(5):
        start = time.perf_counter()
        torch.add(a, b)
        times.append(time.perf_counter() - start)
    assert min(times) * 20 < loop
