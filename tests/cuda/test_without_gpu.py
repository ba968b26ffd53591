"""What holds of CUDA on any machine: nothing of it is loaded before it is used, and its absence is said clearly."""

import subprocess
import sys

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau._backend.cuda_layout import merged, plan
from flambeau._ops.layers.convolution.description import way


@pytest.mark.slow
def test_importing_loads_no_gpu_library():
    program = (
        "import sys, flambeau as t; t.ones(3).exp(); print([m for m in sys.modules if m.startswith(('cupy', 'cuda'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_raises():
    assert torch.cuda.device_count() == 0 and not torch.cuda.is_available()
    for f in (lambda: torch.zeros(2, device="cuda"), lambda: torch.ones(2).cuda(), lambda: torch.ones(2).to("cuda")):
        with pytest.raises((AssertionError, RuntimeError), match="CUDA"):
            f()


def test_a_switch_of_cudnn_that_stays_as_it_is_changes_nothing():
    F.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 2, 2))
    known, cudnn = way.cache_info().currsize, torch.backends.cudnn
    cudnn.enabled = cudnn.enabled
    assert way.cache_info().currsize == known > 0
    with cudnn.flags(enabled=False):
        assert way.cache_info().currsize == 0


def test_a_compiled_function_that_sets_switches_runs_eagerly():
    """Its program would do everything as the last of them say."""

    def function(x):
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            y = x * 2
        torch.use_deterministic_algorithms(False)  # as it is
        return y + 1

    def demanding(x):
        torch.use_deterministic_algorithms(True)
        y = x * 2
        torch.use_deterministic_algorithms(False)
        return y + 1

    for f in (function, demanding):
        compiled = torch.compile(f)
        for i in range(3):
            assert compiled(torch.full((2,), i)).tolist() == [2 * i + 1] * 2
        assert "a switch is set" in compiled._region.problem.reason
    assert torch.backends.cudnn.allow_tf32


def described(*arrays):
    return [(a.shape, a.strides) for a in arrays]


def test_neighbouring_dimensions_are_merged():
    x = np.empty((2, 3, 4), np.float32)
    assert merged(x.shape, [x.strides, x.strides]) == ([24], [[4], [4]])
    turned = x.transpose(2, 0, 1)
    assert merged(turned.shape, [turned.strides]) == ([4, 6], [[4, 16]])
    assert merged((1, 1), [(0, 0)]) == ([1], [[0]])


def test_plans():
    x, row, number = np.empty((2, 3, 4), np.float32), np.empty((4,), np.float32), np.empty((), np.float32)
    p = plan(described(x, x), [4, 4, 4])
    assert (p.rank, p.shape, p.strides, p.geometry, p.single) == (0, (2, 3, 4), None, (24,), frozenset())
    p = plan(described(x, number), [4, 4, 4])
    assert p.rank == 0 and p.single == {1}
    p = plan(described(x, row), [4, 4, 4])
    assert p.rank == 2 and p.geometry == (24, 4, 16, 4, 0, 4, 16, 4) and p.index == "i32"
    assert plan([((6, 4), (1 << 29, 4))], (4, 4)).index == "u32"  # places of elements that have no room in 32 bits
    turned = x.transpose(2, 1, 0)
    p = plan(described(turned), [4, 2])
    assert p.rank == 0 and p.strides == (1, 4, 12) and p.shape == (4, 3, 2)
    p = plan(described(x[:, ::2]), [4, 4])
    assert p.rank == 3 and p.strides is None
    p = plan(described(x[:0]), [4, 4])
    assert p.blocks == 0
    p = plan(described(row), [4, 4], described(x))
    assert p.shape == (2, 3, 4) and p.rank == 2


def test_a_plan_refuses_shapes_that_do_not_fit():
    x, y = np.empty((2, 3), np.float32), np.empty((4,), np.float32)
    with pytest.raises(ValueError):
        plan(described(x, y), [4, 4, 4])
    with pytest.raises(ValueError):
        plan(described(x), [4, 4], described(y))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_figures_and_switches_without_a_gpu():
    cuda = torch.cuda
    assert cuda.memory_stats_as_nested_dict() == {} and cuda.get_gencode_flags() == ""
    assert cuda.get_allocator_backend() == "native" and not cuda.is_tf32_supported() and not cuda.has_magma
    with cuda.caching_allocator_disabled():
        assert cuda.memory_allocated() == 0
    for call in (
        lambda: cuda.caching_allocator_alloc(4),
        lambda: cuda.set_per_process_memory_fraction(0.5),
        cuda.get_per_process_memory_fraction,
        cuda.cudart,
        cuda.current_blas_handle,
        cuda.MemPool,
        lambda: cuda.get_stream_from_external(0),
    ):
        with pytest.raises(AssertionError, match="CUDA"):
            call()
    with pytest.raises(TypeError, match="float"):
        cuda.set_per_process_memory_fraction("half")
    with pytest.raises(ValueError, match="no memory"):
        cuda.caching_allocator_delete(1)


def test_the_driver_is_asked_through_its_library():
    try:
        import pynvml  # noqa: F401
    except ModuleNotFoundError:
        for name in ("utilization", "temperature", "power_draw", "clock_rate", "memory_usage", "device_memory_used"):
            with pytest.raises(ModuleNotFoundError, match="nvidia-ml-py"):
                getattr(torch.cuda, name)()
        assert "nvidia-ml-py" in torch.cuda.list_gpu_processes()


def test_plans_can_hold_calls_that_need_no_memory_to_work_in():
    """Engines of cuDNN are given none then; such a convolution had no plan, as nothing was made that it could lie in."""
    from flambeau._backend.cuda_watch import Data, Shadow, _argument

    assert _argument(Shadow((0,), np.dtype(np.uint8), Data(3))) == (-1, 0)
    assert _argument(Shadow((2,), np.dtype(np.uint8), Data(3, 64))) == (3, 64)
