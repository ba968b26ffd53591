"""Compiled functions, modules and training steps on a GPU give what eager ones give there."""

import copy

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]

CUDA = "cuda"


def agree(a, b, rtol=1e-5):
    assert a.is_cuda == b.is_cuda
    torch.testing.assert_close(a, b, rtol=rtol, atol=rtol)


def pointwise(x, y):
    return (torch.tanh(x * y) + torch.sigmoid(x - y) * 2).exp().mul(0.5).clamp(-1, 1).sum(1)


def made_inside(x, y):
    scale = torch.tensor([1.0, 2.0, 3.0], device=x.device)
    zeros, ramp = torch.zeros(3, device=x.device), torch.arange(3, device=x.device)
    return x[:, :3] * scale + zeros + ramp


def writes(x, y):
    z = x.clone()
    z[1:3] = y[1:3]
    z.add_(1).mul_(2)
    z[:, 0] = 7
    return z, z.t()[1:]


def between(x, y):
    return (x.cpu() * 2).to(x.device) + y


@pytest.mark.parametrize("function", [pointwise, made_inside, writes, between])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_functions(function, dtype):
    compiled = torch.compile(function)
    for seed in range(3):
        torch.manual_seed(seed)
        x, y = torch.randn(6, 5, device=CUDA).to(dtype), torch.randn(6, 5, device=CUDA).to(dtype)
        expected, got = function(x, y), compiled(x, y)
        for a, b in zip(*[r if isinstance(r, tuple) else (r,) for r in (expected, got)], strict=True):
            agree(a, b)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        # without a bias: before a batch norm its gradient is noise, which AdamW would make large
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.attention = nn.MultiheadAttention(8, 2, bias=False, batch_first=True)
        self.head = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2).flatten(2).transpose(1, 2)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.head(x.mean(1))


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_training(whole, kind):
    torch.manual_seed(0)
    first = Net().to(CUDA)
    second = copy.deepcopy(first)
    x, target = torch.randn(4, 3, 8, 8, device=CUDA), torch.randint(0, 4, (4,), device=CUDA)

    def stepping(model, compiled):
        optimizer = kind(model.parameters(), lr=1e-2)
        called = torch.compile(model) if compiled and not whole else model

        def step(x, target):
            optimizer.zero_grad()
            loss = F.cross_entropy(called(x), target)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return loss

        return torch.compile(step) if compiled and whole else step

    steps = stepping(first, False), stepping(second, True)
    for _ in range(5):
        agree(steps[0](x, target).detach(), steps[1](x, target).detach(), 1e-4)
    for (name, a), b in zip(first.state_dict().items(), second.state_dict().values(), strict=True):
        assert torch.allclose(a.float(), b.float(), 1e-3, 1e-3), name
    first.eval(), second.eval()
    with torch.no_grad():
        agree(first(x), torch.compile(second)(x), 1e-3)


def test_random_numbers_are_the_streams_own():
    def function(x):
        return F.dropout(x, 0.5, training=True) + torch.randn(4, 5, device=x.device)

    compiled, x, results = torch.compile(function), torch.ones(4, 5, device=CUDA), []
    for f in (function, compiled):
        torch.manual_seed(3)
        results.append([f(x) for _ in range(3)])
    for a, b in zip(*results, strict=True):
        agree(a, b)


def test_autocast():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to(CUDA)
    x = torch.randn(8, 16, device=CUDA)

    def loss(x):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            out = model(x)
        return out.float().square().mean()

    compiled = torch.compile(loss)
    for _ in range(3):
        expected = torch.autograd.grad(loss(x), list(model.parameters()))
        got = torch.autograd.grad(compiled(x), list(model.parameters()))
        for a, b in zip(expected, got, strict=True):
            agree(a, b, 1e-2)


def test_a_function_that_moved_to_the_gpu_is_another():
    compiled = torch.compile(pointwise)
    x, y = torch.randn(6, 5), torch.randn(6, 5)
    agree(compiled(x, y), pointwise(x, y))
    agree(compiled(x.cuda(), y.cuda()), pointwise(x.cuda(), y.cuda()))
    agree(compiled(x, y), pointwise(x, y))
