"""What is computed in place is traced and exported by PyTorch's operators, with arguments by name where those have only names."""

import warnings

import pytest

import flambeau as torch
from flambeau.nn import functional as F

CALLS = {
    "lerp_": lambda a, b: a.clone().lerp_(b, 0.3),
    "lerp_ by a tensor": lambda a, b: a.clone().lerp_(b, b.sigmoid()),
    "add_": lambda a, b: a.clone().add_(b, alpha=2),
    "sub_": lambda a, b: a.clone().sub_(b, alpha=2),
    "addcmul_": lambda a, b: a.clone().addcmul_(b, b, value=2),
    "addcdiv_": lambda a, b: a.clone().addcdiv_(b, b.abs() + 1, value=2),
    "clamp_": lambda a, b: a.clone().clamp_(0, 1),
    "div_": lambda a, b: a.clone().div_(2, rounding_mode="floor"),
    "elu_": lambda a, b: F.elu_(a.clone(), 0.5),
    "celu_": lambda a, b: torch.celu_(a.clone(), 0.5),
    "round_": lambda a, b: a.clone().round_(decimals=1),
}
SEVERAL = {
    "unique_consecutive": lambda a, b: torch.unique_consecutive(a.round(), return_counts=True),
    "unique_consecutive alone": lambda a, b: torch.unique_consecutive(a.round()),
    "unique of rows": lambda a, b: torch.unique(a.round(), return_inverse=True, dim=0),
    "adaptive_max_pool2d": lambda a, b: F.adaptive_max_pool2d(a[None], 2),
    "adaptive_max_pool3d": lambda a, b: F.adaptive_max_pool3d(a[None, None], 1, return_indices=True),
}


@pytest.mark.parametrize("name", [*CALLS, *SEVERAL])
def test_traced_and_exported(name):
    function = {**CALLS, **SEVERAL}[name]

    class Model(torch.nn.Module):
        def forward(self, a, b):
            return function(a, b)

    torch.manual_seed(0)
    a, b = torch.randn(2, 3, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.jit.TracerWarning)
        traced = torch.jit.trace(Model(), (a, b))
    torch.testing.assert_close(traced(a, b), function(a, b), rtol=0, atol=0)
    program = torch.export.export(Model(), (a, b))
    torch.testing.assert_close(program.module()(a, b), function(a, b), rtol=0, atol=0)


@pytest.mark.parametrize("name, written", [("addcmul_", "value=2"), ("add_", "alpha=2"), ("lerp_", ", b, 0.3)")])
def test_written_as_pytorch_reads_it(name, written):
    a, b = torch.randn(2, 3, 4)
    assert written in torch.jit.trace(CALLS[name], (a, b)).code
