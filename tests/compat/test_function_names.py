"""Functions that have the name of the module they come from stay functions, whatever is imported."""

import subprocess
import sys

import pytest


@pytest.mark.slow
def test_gradcheck_stays_a_function():
    program = (
        "import flambeau; flambeau.install_as_torch()\n"
        "import torch\n"
        "before = torch.autograd.gradcheck\n"
        "from torch.autograd.gradcheck import GradcheckError, gradcheck\n"
        "import torch.autograd.gradcheck\n"
        "assert torch.autograd.gradcheck is before is gradcheck and callable(before)\n"
        "import torch.autograd._functions\n"
        "from torch.autograd._functions.tensor import Resize\n"
        "assert torch.autograd._functions.Resize is Resize\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
