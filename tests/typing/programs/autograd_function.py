"""Derivatives by hand, hooks, gradients of gradients."""

from typing import Any

import flambeau as torch
from flambeau.autograd import Function
from flambeau.autograd.function import once_differentiable


class Clamp(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, low: float, high: float) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.bounds = low, high
        return x.clamp(min=low, max=high)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (x,) = ctx.saved_tensors
        low, high = ctx.bounds
        return grad * ((x >= low) & (x <= high)).to(grad.dtype), None, None


class Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        result = torch.exp(x)
        ctx.save_for_backward(result)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (result,) = ctx.saved_tensors
        return grad * result


x = torch.linspace(-2, 2, steps=5, dtype=torch.float64, requires_grad=True)
y = Clamp.apply(x, -1.0, 1.0).sum()
(first,) = torch.autograd.grad(y, x, create_graph=False)
z = (x**3).sum()
(g,) = torch.autograd.grad(z, [x], create_graph=True)
(h,) = torch.autograd.grad(g.sum(), x)
handle = x.register_hook(lambda grad: grad * 2)
Exp.apply(x).mean().backward()
handle.remove()
assert x.grad is not None
print(first.tolist(), h, x.grad.norm(p=2).item())
print(torch.autograd.gradcheck(lambda t: Clamp.apply(t, -1.5, 1.5), (x,)))
with torch.autograd.set_detect_anomaly(True):
    torch.autograd.backward([x.sin().sum()])
jacobian = torch.autograd.functional.jacobian(lambda t: t.cumsum(0), x.detach())
print(jacobian[0].shape)
