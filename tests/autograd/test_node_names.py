"""The names that nodes show: PyTorch's, also where an operation is made of several here."""

import pytest

import flambeau as torch

F = torch.nn.functional


def leaf(*shape):
    return torch.ones(*shape).requires_grad_()


CASES = {
    "CdistBackward0": lambda: torch.cdist(leaf(2, 3), leaf(4, 3)),
    "DiagEmbedBackward0": lambda: torch.diag_embed(leaf(3)),
    "TraceBackward0": lambda: torch.trace(leaf(2, 2)),
    "RepeatBackward0": lambda: leaf(2).repeat(3),
    "PixelShuffleBackward0": lambda: F.pixel_shuffle(leaf(1, 4, 2, 2), 2),
    "MseLossBackward0": lambda: F.mse_loss(leaf(3), torch.zeros(3), reduction="sum"),
    "HuberLossBackward0": lambda: F.huber_loss(leaf(3), torch.zeros(3)),
    "BinaryCrossEntropyBackward0": lambda: F.binary_cross_entropy(leaf(3), torch.ones(3)),
    "UpsampleBilinear2DBackward0": lambda: F.interpolate(leaf(1, 1, 2, 2), size=(3, 3), mode="bilinear"),
    "UpsampleNearest2DBackward0": lambda: F.interpolate(leaf(1, 1, 2, 2), scale_factor=2),
    "ReflectionPad2DBackward0": lambda: F.pad(leaf(1, 1, 3, 3), (1, 1, 1, 1), "reflect"),
    "ConstantPadNdBackward0": lambda: F.pad(leaf(3), (1, 1)),
    "GridSampler2DBackward0": lambda: F.grid_sample(leaf(1, 1, 2, 2), torch.zeros(1, 2, 2, 2), align_corners=False),
    "CeluBackward0": lambda: F.celu(leaf(3)),
    "ClampBackward1": lambda: leaf(3).clamp(0, 2),
    "ClampBackward0": lambda: leaf(3).clamp(torch.zeros(3), torch.ones(3)),
    "TransposeBackward0_copy": lambda: torch.transpose_copy(leaf(2, 3), 0, 1),
    "PowBackward0": lambda: leaf(3) ** 0.5,
    "MedianBackward0": lambda: leaf(3).median(),
    "NanmedianBackward1": lambda: torch.nanmedian(leaf(2, 3), 1).values,
    "NllLossBackward0": lambda: F.nll_loss(leaf(2, 3), torch.tensor([0, 1]), reduction="none"),
    "NllLoss2DBackward0": lambda: F.nll_loss(leaf(1, 3, 2, 2), torch.zeros(1, 2, 2, dtype=torch.int64)),
    "LerpBackward1": lambda: torch.lerp(leaf(3), leaf(3), torch.ones(3)),
    "LerpBackward0": lambda: torch.lerp(leaf(3), leaf(3), 0.5),
    "MulBackward0": lambda: 2 / leaf(3),
}


@pytest.mark.parametrize("name", CASES)
def test_name(name):
    made = CASES[name]()
    assert made.grad_fn.name() == name
    assert type(made.grad_fn).__name__ == name
    assert f"grad_fn=<{name}>" in repr(made)
    made.sum().backward()


def test_an_input_that_comes_back_keeps_its_name():
    x = leaf(1, 1, 3, 3) * 2
    assert F.pad(x, (0, 0, 0, 0), "replicate").grad_fn is not None
    assert x.grad_fn.name() == "MulBackward0"
