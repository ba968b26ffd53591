"""Numbers keep the sign of zero on their way to a GPU; tensors cannot be set to memory of another device."""

import pytest

import flambeau as torch

from .fake_gpu import back, on_gpu

pytestmark = pytest.mark.sweep


@pytest.mark.parametrize("d", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_negative_zero(gpu, d):
    for _ in range(3):
        for value in (-0.0, 0.0):
            number = torch.tensor(value, dtype=d)
            sign = torch.signbit(number).item()
            assert torch.signbit(back(number.to("cuda"))).item() == sign
            assert torch.signbit(back(torch.full((2,), value, dtype=d, device="cuda"))).tolist() == [sign] * 2
            assert torch.signbit(back(on_gpu(torch.ones(2, dtype=d)) * number)).tolist() == [sign] * 2
            assert torch.signbit(back(on_gpu(torch.ones(2, dtype=d)).fill_(value))).tolist() == [sign] * 2
    assert back(torch.full((2,), -0.0, dtype=torch.int64, device="cuda")).tolist() == [0, 0]


def test_set_to_memory_of_another_device(gpu):
    with pytest.raises(RuntimeError, match="different device"):
        on_gpu(torch.ones(3)).set_(torch.ones(3))
