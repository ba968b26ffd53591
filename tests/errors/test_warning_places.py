"""Warnings name the line of the program that is to be changed, not one of ours."""

import warnings

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F

scheduler = torch.optim.lr_scheduler.StepLR


def _early_step():
    optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], 0.1)
    scheduler(optimizer, 1).step(3)


def _hooked(result):
    layer = nn.Linear(2, 2)
    layer.register_full_backward_hook(lambda *given: None)
    layer.register_forward_hook(lambda module, args, out: out if result is None else result)
    layer(torch.ones(1, 2)).sum().backward() if result is None else layer(torch.ones(1, 2))


@pytest.mark.parametrize(
    "program",
    [
        lambda: float(torch.ones(1, requires_grad=True)), _early_step, lambda: _hooked("text"), lambda: _hooked(None),
        lambda: F.mse_loss(torch.ones(2), torch.ones(1)), lambda: nn.LSTM(2, 2, dropout=0.5), lambda: nn.Transformer(4, 2, norm_first=True),
        lambda: torch.utils.checkpoint.checkpoint(torch.sin, torch.ones(1), use_reentrant=True), lambda: torch.ones(1, 2, 3).T,
        lambda: nn.Softmax()(torch.ones(1)), lambda: torch.tensor(torch.ones(1)), lambda: F.kl_div(torch.ones(2), torch.ones(2)),
        lambda: torch.add(torch.ones(2), 1, out=torch.ones(3)), lambda: nn.init.kaiming_uniform_(torch.ones(0, 2)),
    ],
)  # fmt: skip
def test_place(program):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        program()
    assert {w.filename for w in told} == {__file__}, [(w.filename, w.lineno) for w in told]
