"""Families of operations wait for their first use; programs cannot tell."""

import os
import subprocess
import sys

import pytest

HEAD = """
import sys
import flambeau as torch
from flambeau._ops import families, registry
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder for kernels in which the families' names are known."""
    folder = tmp_path_factory.mktemp("cache")
    assert _run(folder, "print('flambeau._ops.layers.conv' in sys.modules)") == "True\n"
    return folder


def _run(folder, code):
    env = {**os.environ, "FLAMBEAU_CACHE_DIR": str(folder)}
    done = subprocess.run([sys.executable, "-c", HEAD + code], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _file(folder):
    (found,) = folder.glob("families-*")
    return found


@pytest.mark.slow
def test_families_wait_for_their_names(place):
    code = """
def here(name):
    return f"flambeau._ops.{name}" in sys.modules

assert not any(here(name) for name in ("layers.conv", "folds.softmax", "signal.fft", "folds.sorting", "sparse.operations"))
assert "softmax" in dir(torch) and "softmax" in dir(torch.Tensor) and "conv2d" in registry.functions and not here("folds.softmax")
assert torch.Tensor.softmax is torch.Tensor.softmax and here("folds.softmax") and not here("layers.conv")
assert hasattr(torch, "conv2d") and here("layers.conv")
assert torch.ones(2).sort().values.tolist() == [1.0, 1.0] and here("folds.sorting")
assert registry.ops.logsumexp(torch.zeros(1), 0).item() == 0.0
assert torch.eye(2).to_sparse().sum().item() == 2.0 and here("sparse.operations")
assert not hasattr(torch, "no_such_name") and not hasattr(torch.Tensor, "no_such_name") and not hasattr(registry.ops, "no_such_name")
assert not here("signal.fft")
"""
    _run(place, code)


@pytest.mark.slow
def test_what_a_program_puts_in_its_place_stays(place):
    code = """
mine = lambda *args: "mine"
torch.softmax = torch.Tensor.softmax = torch.nn.functional.softmax = mine
assert torch.log_softmax(torch.zeros(1), 0).item() == 0.0
families.load_all()
assert torch.softmax is mine and torch.zeros(1).softmax() == "mine" and torch.nn.functional.softmax is mine

class Sub(torch.Tensor):
    def cumsum(self, dim):
        return super().cumsum(dim) + 1

assert torch.ones(2).as_subclass(Sub).cumsum(0).tolist() == [2.0, 3.0]
"""
    _run(place, code)


@pytest.mark.slow
def test_all_names_are_there_however_they_are_loaded(place, tmp_path):
    code = """
import inspect, pickle
space = {}
exec("from flambeau import *; from flambeau.nn.functional import *", space)
print(len(space), sorted(dir(torch)), sorted(dir(torch.Tensor)), sorted(registry.records), sorted(registry.functions))
assert pickle.loads(pickle.dumps(torch.logsumexp)) is torch.logsumexp
assert list(inspect.signature(torch.Tensor.logsumexp).parameters)[:2] == ["input", "dim"]
"""
    assert _run(place, code) == _run(tmp_path, code)


@pytest.mark.slow
def test_the_order_of_loading_does_not_matter(place):
    code = """
from flambeau._ops import _FAMILIES
for room, names in reversed(_FAMILIES.items()):
    for family in reversed(names.split()):
        families.load(f"{room}.{family}")
assert not families._waiting
print(torch.nn.functional.cross_entropy(torch.zeros(2, 3), torch.tensor([0, 1])))
"""
    assert _run(place, code) == "tensor(1.0986)\n"


@pytest.mark.slow
def test_threads_never_see_half_a_family(place):
    """A name that stands early in a file is not given to another thread before the whole file is there."""
    code = """
import importlib.machinery, threading, time
slow = importlib.machinery.SourceFileLoader.exec_module

def exec_module(self, module):
    slow(self, module)
    if module.__name__.endswith("_ops.folds.sorting"):  # all names are there, but the import goes on
        time.sleep(0.3)
        module.done = True

importlib.machinery.SourceFileLoader.exec_module = exec_module
seen = []

def look(find):
    find()
    seen.append(hasattr(sys.modules["flambeau._ops.folds.sorting"], "done"))

finds = (lambda: torch.sort, lambda: torch.Tensor.topk, lambda: registry.ops.argsort, lambda: registry.records["topk"])
threads = [threading.Thread(target=look, args=(find,)) for find in finds for _ in range(3)]
for thread in threads:
    thread.start()
    time.sleep(0.02)
for thread in threads:
    thread.join()
assert seen == [True] * 12, seen
"""
    _run(place, code)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
def test_a_fork_waits_for_imports(place):
    code = """
import importlib.machinery, os, threading, time, warnings
warnings.simplefilter("ignore")
plain = importlib.machinery.SourceFileLoader.exec_module

def exec_module(self, module):
    if module.__name__.endswith("_ops.folds.sorting"):
        begun.set()
        time.sleep(0.3)
    plain(self, module)

importlib.machinery.SourceFileLoader.exec_module = exec_module
begun = threading.Event()
thread = threading.Thread(target=lambda: torch.sort)
thread.start()
assert begun.wait(60)
child = os.fork()
if not child:
    os._exit(7 if torch.ones(2).sort().values.tolist() == [1.0, 1.0] else 1)
import signal
signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
signal.alarm(60)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
thread.join()
"""
    _run(place, code)


@pytest.mark.slow
def test_every_name_belongs_to_one_family(place):
    owners = {}
    for line in _file(place).read_text().split("\n")[1:]:
        table, family, *names = line.split(" ")
        for name in names:
            assert owners.setdefault((table, name), family) == family, name
    code = """
from flambeau._tensor import methods as _methods
for table in (registry.functions, registry.methods, registry.records):
    waiting = {name for name, family in table.owners.items() if f"flambeau._ops.{family}" not in sys.modules}
    assert waiting and waiting.isdisjoint(dict.keys(table))
before = _methods._direct()  # modes and classes that override must know these from the start
families.load_all()
assert _methods._direct() == before
"""
    _run(place, code)


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage", [lambda text: "0" + text, lambda text: text.replace(" layers.conv ", " os "), lambda text: "\0"]
)
def test_a_list_that_is_not_true_is_made_again(place, tmp_path, damage):
    kept = _file(place).read_text()
    copy = tmp_path / _file(place).name
    copy.write_text(damage(kept))
    copy.chmod(0o600)
    tmp_path.chmod(0o700)
    assert _run(tmp_path, "print('flambeau._ops.layers.conv' in sys.modules)") == "True\n"
    assert copy.read_text() == kept


@pytest.mark.slow
def test_without_a_place_to_write_all_are_imported(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    code = "print('flambeau._ops.layers.conv' in sys.modules, torch.ones(2).softmax(0).tolist())"
    assert _run(file / "below", code) == "True [0.5, 0.5]\n"


def test_a_family_that_is_not_there_is_said_so():
    from flambeau._ops import families

    families.load("places.selection")  # imported from the start
    with pytest.raises(ValueError, match="no family of operations 'selection'"):
        families.load("selection")
