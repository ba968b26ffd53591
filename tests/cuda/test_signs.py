"""Numbers that go to kernels by value keep the sign of zero; tensors cannot be set to memory of another device."""

import numpy as np
import pytest

import flambeau as torch
from flambeau._backend import cuda as cuda_module

from .emulated import Kernel
from .fake_gpu import back, on_gpu

pytestmark = pytest.mark.sweep


class WithoutSigns(Kernel):
    """CuPy passes floating zeros without their signs."""

    def __call__(self, grid, block, args):
        super().__call__(grid, block, [abs(a) if isinstance(a, (float, np.floating)) and a == 0 else a for a in args])


@pytest.mark.parametrize("d", [torch.float32, torch.float64, torch.float16])
def test_negative_zero_by_value(gpu, monkeypatch, d):
    kernels = {}
    monkeypatch.setattr(
        cuda_module.Cuda,
        "compiled",
        lambda self, name, text: kernels.setdefault(text, cuda_module.Function(WithoutSigns(name, text))),
    )
    for value in (-0.0, 0.0):
        number = torch.tensor(value, dtype=d)
        assert torch.signbit(back(number.to("cuda"))).item() == torch.signbit(number).item()
        assert (
            torch.signbit(back(torch.full((2,), value, dtype=d, device="cuda"))).tolist() == [str(value)[0] == "-"] * 2
        )
        assert (
            torch.signbit(back(on_gpu(torch.ones(2, dtype=d)) * number)).tolist() == [torch.signbit(number).item()] * 2
        )


def test_set_to_memory_of_another_device(gpu):
    with pytest.raises(RuntimeError, match="different device"):
        on_gpu(torch.ones(3)).set_(torch.ones(3))
