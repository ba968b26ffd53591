"""Per-sample gradients, jacobians, hessians, models as functions."""

import flambeau as torch
import flambeau.nn as nn
from flambeau.func import functional_call, grad, hessian, jacrev, jvp, stack_module_state, vjp, vmap

net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))
parameters = {name: p.detach() for name, p in net.named_parameters()}
x, y = torch.randn(6, 3), torch.randn(6, 1)


def loss(parameters: dict[str, torch.Tensor], sample: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    predicted = functional_call(net, parameters, (sample.unsqueeze(0),))
    return nn.functional.mse_loss(predicted.squeeze(0), target)


per_sample = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
norms = torch.stack([g.flatten(1).norm(dim=1) for g in per_sample.values()]).norm(dim=0)


def energy(v: torch.Tensor) -> torch.Tensor:
    return (v.sin() * v).sum()


point = torch.linspace(0.0, 1.0, 3)
matrix = hessian(energy)(point)
rows = jacrev(lambda v: torch.outer(v, v))(point)
value, tangent = jvp(energy, (point,), (torch.ones_like(point),))
result, pull = vjp(energy, point)
batched = vmap(lambda a, b: a @ b, in_dims=(0, None))(torch.rand(4, 2, 3), torch.rand(3))
models = [nn.Linear(3, 2) for _ in range(3)]
stacked, buffers = stack_module_state(models)
print(
    norms.shape,
    matrix.shape,
    rows.shape,
    float(value),
    tangent,
    pull(torch.tensor(1.0))[0].shape,
    batched.shape,
    len(stacked),
)
