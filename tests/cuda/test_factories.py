"""Numbers in order on a GPU that is none: what was made before is copied, never shared."""

import os

import pytest

import flambeau as torch
from flambeau._core import state
from flambeau._core.state import modes
from flambeau._ops.making import ranges
from flambeau._ops.making.generator import default_of

from .emulated import Kernel
from .fake_gpu import back, on_gpu

NATIVE = os.environ.get("FLAMBEAU_NATIVE_ENTRY") != "0"
CUDA = torch.device("cuda")


def test_what_comes_again_is_a_copy(gpu, monkeypatch):
    monkeypatch.setattr(modes, "inferring", None)  # nothing is copied while somebody is in inference mode
    made = []

    def made_there(start, end, step, d, k):
        made.append(k)
        return on_gpu(torch.tensor(list(range(start, end, step))))._array

    monkeypatch.setattr(ranges, "_range", made_there)
    first = torch.arange(3, 1237, 3, device=CUDA)
    first.add_(1)
    second, third = (torch.arange(3, 1237, 3, device=CUDA) for _ in range(2))
    second.mul_(0)
    wanted = list(range(3, 1237, 3))
    assert back(first).tolist() == [n + 1 for n in wanted] and back(third).tolist() == wanted
    assert len(made) == 1 and third.device.type == "cuda"
    for turn in range(3):
        before = Kernel.natively
        assert back(torch.arange(3, 1237, 3, device=CUDA)).tolist() == wanted
        assert turn < 1 or not NATIVE or Kernel.natively == before + 1


def test_new_tensors_are_one_native_call(gpu):
    made = {
        "zeros": lambda: torch.zeros(3, 4, device="cuda"), "ones": lambda: torch.ones((2, 3), dtype=torch.bfloat16, device=CUDA),
        "full": lambda: torch.full((5,), -0.0, device="cuda"), "rand": lambda: torch.rand(3, 7, device="cuda"),
        "randn": lambda: torch.randn(2, dtype=torch.float64, device="cuda"), "randint": lambda: torch.randint(2, 9, (40,), device="cuda"),
    }  # fmt: skip
    for name, make in made.items():
        default_of(state.CUDA).manual_seed(7)
        drawn = []
        for again in range(6):
            before = Kernel.natively
            drawn.append(make())
            assert again < 4 or not NATIVE or Kernel.natively == before + 1
        default_of(state.CUDA).manual_seed(7)
        for t in drawn:
            assert (
                t.device.type == "cuda"
                and t.dtype is drawn[0].dtype
                and t.shape == drawn[0].shape
                and t.is_contiguous()
            )
            assert back(make()).equal(back(t)) and (
                name[0] != "r" or t is drawn[0] or not back(t).equal(back(drawn[0]))
            )
    assert back(made["full"]()).signbit().all() and not back(torch.full((5,), 0.0, device="cuda")).signbit().any()
    assert back(made["ones"]()).equal(torch.ones(2, 3, dtype=torch.bfloat16)) and not back(made["zeros"]()).any()
    for _ in range(5):
        one, other = torch.empty(3, 2, device="cuda"), torch.empty(3, 2, device="cuda")
        assert one.shape == (3, 2) and one.data_ptr() != other.data_ptr()
        with pytest.raises(TypeError):
            torch.zeros((2.0, 3), device="cuda")
        assert torch.zeros(3, device="cuda", requires_grad=True).requires_grad
        one = torch.zeros(3, device="cuda")
        one.add_(1)
        with torch.inference_mode():
            assert torch.zeros(3, device="cuda").is_inference()
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.zeros(3, 4, device="cuda").dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_places_in_order(gpu):
    bounds = torch.tensor([[1.0, 2.0, 2.0, 5.0], [-1.0, 0.0, 3.0, float("nan")]])
    values = torch.tensor([[2.0, 0.0, 9.0], [3.0, -4.0, float("nan")]])
    for right in (False, True):
        for row, value in ((bounds, values), (bounds[0], values), (bounds[0], values[0, 0])):
            found = torch.searchsorted(on_gpu(row), on_gpu(value), right=right)
            assert torch.equal(back(found), torch.searchsorted(row, value, right=right))
