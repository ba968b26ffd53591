"""Whether there are GPUs, as tests ask for it."""

from ... import cuda

__all__ = ["TEST_CUDA", "TEST_CUDNN", "TEST_MULTIGPU"]

TEST_CUDA = cuda.is_available()
TEST_MULTIGPU = TEST_CUDA and cuda.device_count() >= 2
TEST_CUDNN = TEST_CUDA
