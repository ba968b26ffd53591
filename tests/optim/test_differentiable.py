"""Steps that are differentiable in their settings."""

import pytest

import flambeau as torch

SETTINGS = {
    "SGD": ("lr", "weight_decay"), "Adam": ("lr", "weight_decay", "betas"), "AdamW": ("lr", "weight_decay", "betas"),
}  # fmt: skip


def course(kind, start, values):
    """The loss after two steps, as a function of the settings."""
    named = dict(zip(SETTINGS[kind], values))
    if "betas" in named:
        named["betas"] = (named["betas"], torch.tensor(0.98, dtype=torch.float64))
    p = start.clone()
    optimizer = getattr(torch.optim, kind)([p], differentiable=True, **named)
    for _ in range(2):
        loss = ((p * torch.tensor([1.0, 2.0], dtype=torch.float64)).sum() - 3) ** 2
        loss.backward(inputs=(p,), create_graph=True)
        optimizer.step()
        optimizer.zero_grad()
    return (p**2).sum()


@pytest.mark.parametrize("kind", SETTINGS)
def test_gradients_by_settings(kind):
    start = torch.tensor([0.5, -0.3], dtype=torch.float64, requires_grad=True)
    values = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (0.01, 0.1, 0.9)[: len(SETTINGS[kind])]]
    assert torch.autograd.gradcheck(lambda start, *values: course(kind, start, values), (start, *values))


def test_finite_differences_see_inputs_that_require_grad():
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)

    def gradient_of(x):
        return torch.autograd.grad((x**3).sum(), x, create_graph=True)[0]

    assert torch.autograd.gradcheck(gradient_of, (x,))
