"""The package loads quickly and without the libraries that only some programs need."""

import os
import subprocess
import sys

import pytest

CODE = """
import sys, time
start = time.process_time()
import numpy, ml_dtypes
between = time.process_time()
import flambeau
spent = (time.process_time() - between) / (between - start)
loaded = {name.split('.')[0] for name in sys.modules}
print(spent, *sorted(loaded & {'llvmlite', 'cupy', 'torch', 'scipy', 'numpy.random'}), 'numpy.random' in sys.modules)
"""


def _run(code, byte_code):
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPYCACHEPREFIX"] = str(byte_code)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env).stdout


def test_import_is_light(tmp_path):
    _run(CODE, tmp_path)  # writes the byte code
    runs = [_run(CODE, tmp_path).split() for _ in range(3)]
    assert [loaded for _, *loaded in runs] == [["False"]] * 3
    assert min(float(spent) for spent, *_ in runs) < 2.5  # times NumPy's own import; about 0.8 on an idle machine


def test_what_asks_after_one_function_leaves_the_other_families_alone():
    """Saving, tracing and names of functions look among those that are imported."""
    code = """
import io
import flambeau as torch
from flambeau._ops.families import _waiting
layer = torch.nn.Linear(2, 2)
before = set(_waiting)
buffer = io.BytesIO()
torch.save({"weights": layer.state_dict(), "function": torch.relu}, buffer)
buffer.seek(0)
torch.load(buffer, weights_only=False)
torch.fx.symbolic_trace(layer)
torch.overrides.resolve_name(torch.add)
print(len(before), len(before - set(_waiting)))
"""
    run = [sys.executable, "-c", code]
    before, loaded = map(int, subprocess.run(run, capture_output=True, text=True, check=True).stdout.split())
    assert loaded < 10 and (before == 0 or before > 40)  # none waits where there is no list of them yet


def test_public_names():
    import flambeau as torch

    for name in ("Tensor", "FloatTensor", "device", "dtype", "finfo", "Generator", "nn", "cuda", "manual_seed", "inf"):
        assert hasattr(torch, name), name
    assert torch.float is torch.float32
    assert torch.version.__version__ == torch.__version__


def test_no_gpu_is_said_clearly():
    import pytest

    import flambeau as torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert torch.cuda.device_count() == 0
    assert torch.cuda.memory_allocated() == 0
    torch.cuda.empty_cache()
    torch.cuda.manual_seed_all(1)
    for use in (lambda: torch.zeros(2).cuda(), lambda: torch.zeros(2, device="cuda"), torch.cuda.current_device):
        with pytest.raises((AssertionError, RuntimeError), match="CUDA"):
            use()
    assert not torch.backends.mps.is_available()
    assert not torch.backends.cudnn.is_available()


def test_every_listed_name_is_there():
    import flambeau

    assert [name for name in dir(flambeau) if not hasattr(flambeau, name)] == []


NAMES = (
    "_prims_common", "fx.passes.infra.pass_base", "optim.swa_utils", "utils._contextlib", "utils._pytree", "utils.weak",
)  # fmt: skip


@pytest.mark.slow
def test_parts_are_there_without_an_import_of_their_own():
    """As PyTorch has loaded them: `torch.utils._pytree.tree_map` after `import torch`."""
    code = f"import flambeau, operator\nfor name in {NAMES!r}:\n    operator.attrgetter(name)(flambeau)\n"
    code += "print(hasattr(flambeau.utils, 'absent'), hasattr(flambeau.nn, 'Absent'))"
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert made.stdout.split() == ["False", "False"]


def test_names_in_two_places():
    import flambeau as torch

    assert str(torch.autograd.DeviceType.CPU) == "DeviceType.CPU"
    assert torch._C.PyTorchFileReader is torch.PyTorchFileReader
