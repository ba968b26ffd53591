"""DLPack: capsules and objects, short floats, memory that is shared and writeable, capsules that are spent."""

import gc
import weakref

import numpy as np
import pytest

import flambeau as torch
from flambeau.utils.dlpack import from_dlpack, to_dlpack


@pytest.mark.parametrize(
    "dtype",
    [
        torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.complex64,
        torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu,
    ],
)  # fmt: skip
@pytest.mark.parametrize("read", [from_dlpack, torch.asarray])
def test_capsules_of_every_dtype(dtype, read):
    x = torch.ones(3, 2, dtype=dtype).t()
    made = read(to_dlpack(x))
    assert made.dtype is dtype and made.shape == (2, 3) and made.stride() == (1, 2)
    assert made.data_ptr() == x.data_ptr() and torch.equal(
        (made.real if dtype.is_complex else made).float(), torch.ones(2, 3)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_writes_are_shared(dtype):
    x = torch.zeros(3, dtype=dtype)
    made = from_dlpack(to_dlpack(x))
    made[1] = 5
    assert x.tolist() == [0, 5, 0]


@pytest.mark.slow
def test_the_memory_lives_as_long_as_the_tensor():
    x = torch.arange(4).to(torch.bfloat16)
    made, owner = from_dlpack(to_dlpack(x)), weakref.ref(x._array)
    del x
    gc.collect()
    assert owner() is not None and made.tolist() == [0, 1, 2, 3]
    del made
    gc.collect()
    assert owner() is None


def test_a_capsule_is_consumed_once():
    capsule = to_dlpack(torch.ones(2))
    from_dlpack(capsule)
    with pytest.raises(RuntimeError, match="consumed only once"):
        from_dlpack(capsule)
    with pytest.raises(RuntimeError, match="__dlpack__"):
        from_dlpack(3)


def test_objects_and_conversions():
    x = np.arange(3.0)
    assert torch.from_dlpack(x).data_ptr() == x.ctypes.data
    assert torch.asarray(to_dlpack(torch.arange(2)), dtype=torch.float64).dtype is torch.float64
    assert to_dlpack(torch.ones(2, requires_grad=True)) is not None
    with pytest.raises(BufferError, match="require gradient"):
        torch.ones(2, requires_grad=True).__dlpack__()


def test_what_cannot_be_exported():
    x = torch.ones(2)
    with pytest.raises(TypeError, match="stream must be"):
        x.__dlpack__(stream=object())
    with pytest.raises(AssertionError, match="stream should be None on cpu"):
        x.__dlpack__(stream=0)
    with pytest.raises(BufferError, match="Unsupported device_type: 16"):
        x.__dlpack__(max_version=(1, 0), dl_device=(16, 0))
    with pytest.raises(BufferError, match="strided"):
        x.to_sparse().__dlpack__()
    with pytest.raises(BufferError, match="types are not supported by dlpack"):
        torch.from_dlpack(torch.quantize_per_tensor(x, 0.1, 0, torch.qint8))
