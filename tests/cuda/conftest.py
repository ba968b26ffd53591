"""A GPU for tests on machines without one."""

import os

import pytest

import flambeau as torch
from flambeau import _dispatch
from flambeau._backend import cuda as cuda_module
from flambeau._backend import placement
from flambeau._compile import guards, reach
from flambeau._kernel.native import site
from flambeau._kernel.native.interpreter import KNOWN_NAMES
from flambeau.optim import _gpu

from . import emulated, fake_gpu
from .emulated import COMPILER, Kernel


def _compiled(self, name, text):
    found = self.kernels.get(text)
    if found is None:
        found = self.kernels[text] = cuda_module.Function(Kernel(name, text))
    return found


@pytest.fixture
def gpu(monkeypatch):
    """The backend of GPUs over a GPU whose kernels the CPU runs."""
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    if COMPILER is None:
        pytest.skip("there is no C++ compiler")
    site.forget_all()  # full tables want a call to come often before they plan it
    backend = cuda_module.cuda
    monkeypatch.setitem(backend.__dict__, "xp", fake_gpu.xp)
    monkeypatch.setattr(backend, "opened", None)
    for module in (cuda_module, _dispatch, placement, _gpu):
        monkeypatch.setattr(module, "gpu_count", lambda: 1)
    monkeypatch.setattr(placement, "cuda_problem", lambda: None)
    monkeypatch.setattr(cuda_module, "addresses", fake_gpu.addresses)
    monkeypatch.setattr(cuda_module.Cuda, "compiled", _compiled)
    monkeypatch.setitem(backend.product.__dict__, "functions", fake_gpu.multiplications())
    monkeypatch.setattr(backend.product.handle, "own", {(0, 77): 7, (0, 78): 8})
    libraries = [(file, reach.LIBRARY) for file in (__file__, fake_gpu.__file__, emulated.__file__)]  # as CuPy is one
    trust = lambda file, usual=reach.trust: dict(libraries).get(file) or usual(file)
    for module in (reach, guards):
        monkeypatch.setattr(module, "trust", trust)
    if not backend.ready() and os.environ.get("FLAMBEAU_NATIVE_ENTRY") != "0":
        pytest.skip("there is no native entry")
    yield backend
    if site._entries.known is not None:
        site._entries.known[KNOWN_NAMES.index("device")] = 0
