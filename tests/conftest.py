"""A test that leaves something switched on fails itself, not another one that happens to come later."""

import gc
import importlib.util
import os
import sys
import tempfile

import pytest


def _keep_bytecode(folder):
    """Workers and programs that tests start would compile the whole package, each for itself: that takes longer than what they do. What
    is imported already was found compiled beside its source."""
    specs = [getattr(module, "__spec__", None) for module in list(sys.modules.values())]
    found = {spec.origin: spec.cached for spec in specs if spec is not None and spec.cached}
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = folder
    sys.dont_write_bytecode = False
    for source, cached in found.items():
        if os.path.exists(cached):
            kept = importlib.util.cache_from_source(source)
            os.makedirs(os.path.dirname(kept), exist_ok=True)
            os.symlink(cached, kept)


if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    _bytecode = tempfile.TemporaryDirectory(prefix="flambeau_bytecode_")
    _keep_bytecode(_bytecode.name)

import flambeau as torch  # noqa: E402
from flambeau._autograd import rehearsal  # noqa: E402
from flambeau._core.state import Local, local, modes  # noqa: E402
from flambeau._kernel.building import ahead  # noqa: E402
from flambeau._kernel.native import site  # noqa: E402

os.environ.setdefault("FLAMBEAU_SHIPPED", "0")  # kernels are tested as these files make them, not as a build left them
site.wait()  # with no kernels on disk, the first tests would run without the native entry
_NAMES = [name for name in vars(Local) if not name.startswith("__")]
_USUAL = {torch.float32, torch.int64, torch.bool}


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Nothing that is made while tests are collected is garbage, and looking for some takes a quarter of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


class _FromTheEnd(pytest.Dir):
    def collect(self):
        return reversed(list(super().collect()))


def pytest_collect_directory(path, parent):
    """Pytest writes assertions anew when it first imports a file, and keeps that for other workers: every second one begins with the last
    file, so that each writes half of them."""
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
    return _FromTheEnd.from_parent(parent, path=path) if number % 2 else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path)  # all workers have the same order


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Each worker has neighbouring tests, which need the same kernels and fixtures; who is done takes some of another's."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getvalue("dist") == "load" else None


def pytest_itemcollected(item):
    """A sweep goes through the usual dtypes by default, through all others with the slow tests."""
    if item.get_closest_marker("sweep") and hasattr(item, "callspec"):
        dtypes = {value for value in item.callspec.params.values() if isinstance(value, torch.dtype)}
        if dtypes - _USUAL:
            item.add_marker("slow")


def _state():
    ahead.finish()  # its thread holds garbage collection up
    state = {name: getattr(local, name) for name in _NAMES}
    state["profiler"] = state["profiler"] is not None
    return {
        **state,
        "moment": ({bit: n for bit, n in modes.counts.items() if n}, modes.on, modes.inferring),
        "default dtype": torch.get_default_dtype(),
        "default device": str(torch.get_default_device()),
        "deterministic": (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ),
        "threads": torch.get_num_threads(),
        "folder": os.getcwd(),
        "alias": "torch" in sys.modules,
        "garbage is collected": gc.isenabled(),
    }


def _left(before):
    after = _state()
    return {name: (before[name], after[name]) for name in before if before[name] != after[name]}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    rehearsal.trains = False  # optimizers of other tests say nothing of what this one needs
    item.stash[_BEFORE] = _state()
    gc.freeze()  # collections look at what this test makes, not at the objects of all others, which takes half a second
    try:
        return (yield)
    finally:
        gc.collect()
        gc.unfreeze()


_BEFORE = pytest.StashKey()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item):
    before = item.stash[_BEFORE]
    if _left(before):
        gc.collect()  # what only garbage keeps on
        left = _left(before)
        assert not left, f"left behind (before, after): {left}"
