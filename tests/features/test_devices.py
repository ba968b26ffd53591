"""Devices, as seen on a machine without a GPU."""

import platform

import pytest

import flambeau as torch
from flambeau import nn

GPU = torch.cuda.is_available()
without_gpu = pytest.mark.skipif(GPU, reason="what happens where there is no GPU")


def test_device_objects():
    assert torch.device("cuda:0").type == "cuda" and torch.device("cuda:0").index == 0
    assert torch.device("cuda:0") == torch.device("cuda", 0)
    assert str(torch.device("cpu")) == "cpu" and torch.device("mps").type == "mps"


def test_a_tensor_already_there_comes_back():
    x = torch.ones(2)
    assert x.to("cpu") is x and x.to(torch.device("cpu"), non_blocking=True) is x
    assert x.to("cpu", torch.float64).dtype is torch.float64
    assert x.to("cpu", torch.float16, non_blocking=True).tolist() == [1, 1]


@without_gpu
def test_cuda_raises_without_a_gpu():
    for move in (lambda x: x.cuda(), lambda x: x.to("cuda"), lambda x: torch.zeros(2, device="cuda")):
        with pytest.raises((AssertionError, RuntimeError)):
            move(torch.ones(2))
    x = torch.ones(2)
    assert x.cpu() is x and not x.is_cuda


def test_factories_take_a_device():
    for made in (torch.rand(3, 4, device="cpu"), torch.zeros(2, device=torch.device("cpu"))):
        assert made.device == torch.device("cpu")
    assert torch.ones(2, device="meta").device.type == "meta"


def test_model_to_moves_in_place():
    model = nn.BatchNorm1d(3)
    assert model.to("cpu") is model and model.to(torch.device("cpu"), torch.float64) is model
    assert model.weight.dtype is model.running_mean.dtype is torch.float64
    assert model.num_batches_tracked.dtype is torch.int64


def test_the_device_agnostic_line():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    assert device.type == ("cuda" if GPU else "cpu")
    assert nn.Linear(2, 1).to(device)(torch.ones(1, 2).to(device)).device.type == device.type


def test_no_silent_transfer():
    with pytest.raises((RuntimeError, NotImplementedError)):
        (torch.ones(2) @ torch.ones(2, device="meta")).item()


def test_only_cpu_tensors_become_arrays():
    with pytest.raises((TypeError, RuntimeError)):
        torch.ones(2, device="meta").numpy()


@without_gpu
def test_memory_counters_without_a_gpu():
    assert torch.cuda.memory_allocated() == 0 and torch.cuda.max_memory_allocated() == 0
    x = torch.ones(2)
    torch.cuda.empty_cache()
    assert x.tolist() == [1, 1]


def test_apple_hardware():
    assert torch.backends.mps.is_available() in (True, False)
    torch.device("mps" if torch.backends.mps.is_available() else "cpu")


@without_gpu
def test_nothing_is_pinned_without_a_gpu():
    assert not torch.ones(2).is_pinned()


def test_what_the_cpu_can_do_has_pytorchs_names():
    found = torch.cpu.get_capabilities()
    assert found["architecture"] == platform.machine().lower() and found["num_logical_cores"] >= 1
    if found["architecture"] == "x86_64":
        assert found["sse2"] is True and {"avx2", "avx512_f", "avx512_vnni", "amx_tile", "fma3", "sse4_2"} <= set(found)
        assert torch.cpu._is_avx2_supported() is found["avx2"]
