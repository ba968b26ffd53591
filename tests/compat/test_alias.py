"""Programs that say `import torch` run on flambeau: in this process, in children, as scripts and as modules."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau
from flambeau.compat import TorchVersion

ROOT = str(Path(flambeau.__file__).parent.parent)


def run(*arguments, path=(), **options):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, path), ROOT])}
    return subprocess.run(
        [sys.executable, *map(str, arguments)], capture_output=True, text=True, env=environment, **options
    )


SCRIPT = """
import sys
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
import torch.linalg
import importlib.metadata, importlib.util

assert torch.__version__ == "2.13.0+flambeau" and torch.__version__ >= "2.1" and torch.__version__ < (3, 0)
assert importlib.metadata.version("torch") == "2.13.0+flambeau"
assert importlib.util.find_spec("torch") and importlib.util.find_spec("torch.nosuch") is None
assert sys.modules["torch.nn.functional"] is F is torch.nn.functional
assert nn is torch.nn and torch.linalg is sys.modules["torch.linalg"]
x = torch.ones(3, requires_grad=True)
(x * x).sum().backward()
print(x.grad.tolist(), sys.argv[1:], __name__)
"""


@pytest.mark.slow
def test_a_script(tmp_path):
    (tmp_path / "program.py").write_text(SCRIPT + "import helper\nprint(helper.torch is torch)\n")
    (tmp_path / "helper.py").write_text("import torch\n")
    done = run("-m", "flambeau", "run", tmp_path / "program.py", "-x", "--flag", "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[2.0, 2.0, 2.0] ['-x', '--flag', '1'] __main__", "True"]


@pytest.mark.slow
def test_a_module(tmp_path):
    (tmp_path / "program.py").write_text(SCRIPT)
    done = run("-m", "flambeau", "run", "-m", "program", "a", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "['a'] __main__" in done.stdout


@pytest.mark.slow
def test_a_missing_script_is_said():
    done = run("-m", "flambeau", "run", "nowhere.py")
    assert done.returncode == 2 and "no file" in done.stderr


@pytest.mark.slow
def test_a_program_that_fails_shows_its_traceback(tmp_path):
    (tmp_path / "program.py").write_text("import torch\ntorch.ones(2) + torch.ones(3)\n")
    done = run("-m", "flambeau", "run", tmp_path / "program.py")
    assert done.returncode == 1 and "program.py" in done.stderr and "RuntimeError" in done.stderr


@pytest.mark.slow
def test_a_package_that_imports_itself_by_the_alias_is_loaded_once(tmp_path):
    """As helpers put beside `torch.testing` do: the package's own import of a part names the package again."""
    (tmp_path / "added").mkdir()
    (tmp_path / "added" / "__init__.py").write_text("import torch.testing.added.part\n")
    (tmp_path / "added" / "part.py").write_text("value = 3\n")
    (tmp_path / "program.py").write_text(
        f"import torch.testing\ntorch.testing.__path__.append({str(tmp_path)!r})\n"
        "import torch.testing.added as added\nprint(added.part.value)\n"
    )
    done = run("-m", "flambeau", "run", tmp_path / "program.py")
    assert done.stdout == "3\n", done.stderr


@pytest.mark.slow
def test_a_module_does_not_replace_the_function_of_its_name(tmp_path):
    (tmp_path / "program.py").write_text(
        "import torch\nfrom torch.autograd.gradcheck import gradcheck\nprint(torch.autograd.gradcheck is gradcheck)\n"
    )
    done = run("-m", "flambeau", "run", tmp_path / "program.py")
    assert done.stdout == "True\n", done.stderr


@pytest.mark.slow
def test_children_follow(tmp_path):
    code = "import torch; print(torch.__version__, torch.__name__)"
    (tmp_path / "program.py").write_text(
        f"import subprocess, sys, torch\nprint(subprocess.run([sys.executable, '-c', {code!r}], capture_output=True, text=True))"
    )
    done = run("-m", "flambeau", "run", tmp_path / "program.py")
    assert "2.13.0+flambeau torch" in done.stdout, done


@pytest.mark.slow
def test_spawned_processes_follow(tmp_path):
    (tmp_path / "program.py").write_text(
        "import multiprocessing, torch\n"
        "def double(x):\n    return torch.tensor([x]).mul(2).tolist(), torch.__version__\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        print(pool.map_async(double, [2]).get(60))\n"
    )
    done = run("-m", "flambeau", "run", tmp_path / "program.py")
    assert done.stdout == "[([4], '2.13.0+flambeau')]\n", done.stderr


@pytest.mark.slow
def test_the_real_torch_is_not_replaced(tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("real = True\n")
    code = (
        "import torch, flambeau\ntry:\n    flambeau.install_as_torch()\nexcept RuntimeError as error:\n    print(error)"
    )
    done = run("-c", code, path=[tmp_path])
    assert "before the first" in done.stdout, done
    done = run(
        "-c",
        "import flambeau; flambeau.install_as_torch(); import torch; print(torch.__spec__.name, torch.__name__)",
        path=[tmp_path],
    )
    assert done.stdout.strip() == "flambeau torch", done


@pytest.mark.slow
def test_real_companions_are_kept(tmp_path):
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text("real = True\n")
    code = "import flambeau; flambeau.install_as_torch(); import torchvision; print(torchvision.real)"
    assert run("-c", code, path=[tmp_path]).stdout.strip() == "True"


@pytest.mark.parametrize("other", ["2.12", "2.13", "2.13.0", (2, 13), "1.99.99", (2, 12, 9)])
def test_versions_compare(other):
    version = TorchVersion("2.13.0+flambeau")
    assert version >= other and not version < other
    assert version != "2.12.0" and version == "2.13.0+flambeau"


PICKLES = """
import io, pickle, torch, warnings

warnings.simplefilter("error")  # pickles use no class that goes away

class Unpickler(pickle.Unpickler):
    asked = 0

    def find_class(self, module, name):
        if (module, name) == ("torch.storage", "_load_from_bytes"):
            Unpickler.asked += 1
            return lambda b: torch.load(io.BytesIO(b), map_location="cpu", weights_only=False)
        return super().find_class(module, name)

a = torch.arange(6.0)
data = pickle.dumps([a, a[2:4], a.view(torch.int32), torch.nn.Parameter(a), a.untyped_storage()])
for values in (pickle.loads(data), Unpickler(io.BytesIO(data)).load()):
    whole, part, bits, parameter, storage = values
    assert torch.equal(whole, a) and type(parameter) is torch.nn.Parameter
    whole[2] = -0.0
    assert part.tolist() == [0.0, 3.0] and bits[2] == -2**31 and parameter[2] == 0 and storage[11] == 128
print(Unpickler.asked)
"""


@pytest.mark.slow
def test_pickled_tensors_name_what_unpicklers_look_for_and_stay_shared(tmp_path):
    (tmp_path / "program.py").write_text(PICKLES)
    done = run("-m", "flambeau", "run", tmp_path / "program.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1\n"


@pytest.mark.slow
@pytest.mark.parametrize("before", ["", "import flambeau.nn\n"])
def test_tensors_are_of_the_package_that_the_program_named(tmp_path, before):
    """By it autoray, wandb and others choose what to do with a tensor."""
    (tmp_path / "program.py").write_text(
        f"import flambeau\n{before}flambeau.install_as_torch()\nimport copy, pickle, torch\n"
        "print(torch.Tensor.__module__, torch.nn.Parameter.__module__, torch.Tensor, torch.ones(1).__class__)\n"
        "kinds = torch.Tensor, torch.nn.Parameter\n"
        "print(pickle.loads(pickle.dumps(kinds)) == kinds, copy.deepcopy(torch.nn.Linear(1, 1)).weight.__class__)\n"
    )
    done = run(tmp_path / "program.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "torch torch.nn.parameter <class 'torch.Tensor'> <class 'torch.Tensor'>",
        "True <class 'torch.nn.parameter.Parameter'>",
    ]


def test_modules_go_by_the_names_that_programs_know(tmp_path):
    """Programs choose by `torch.jit.__name__`; parts are loaded before the alias is there, with it and after it."""
    (tmp_path / "program.py").write_text(
        "import torch, torch.utils.data as data, torchvision\n"
        "print(torch.__name__, torch.nn.__name__, torch.jit.__name__, data.__name__, torchvision.__name__, torchvision.models.__name__)\n"
        "try:\n    torch.nn.Linearr\nexcept AttributeError as error:\n    print(error)\n"
        "print(torch.compile(lambda x: torch.nn.functional.relu(x) + 1)(torch.ones(2)))\n"
    )
    done = run("-m", "flambeau", "run", tmp_path / "program.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "torch torch.nn torch.jit torch.utils.data torchvision torchvision.models",
        "module 'torch.nn' has no attribute 'Linearr'",
        "tensor([2., 2.])",
    ]
