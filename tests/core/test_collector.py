"""Who refers to an object, also among what is frozen; what collections leave out from the import on."""

import gc
import subprocess
import sys

import pytest

import flambeau as torch
from flambeau._core.collector import referrers


@pytest.fixture(params=[False, True], ids=["", "frozen"])
def frozen(request):
    def freeze():
        if request.param:
            gc.freeze()

    yield freeze
    gc.unfreeze()


def test_owners_are_found(frozen):
    class Own:
        pass

    objects = [Own() for _ in range(20)]
    owners = [[one] for one in objects]
    frozen()
    before = gc.get_freeze_count()
    found = [one for one in referrers(objects) if one is not objects]
    assert all(any(one is owner for one in found) for owner in owners)
    assert bool(gc.get_freeze_count()) == bool(before)


def test_tensors_follow_their_storage(frozen):
    x = torch.arange(4.0)
    view = x[1:]
    frozen()
    x.untyped_storage().resize_(32)
    view[0] = 7
    assert x.tolist() == [0, 7, 2, 3] and x.data_ptr() == x.untyped_storage().data_ptr()


def test_numbers_of_a_recorded_run_are_plain_afterwards(frozen):
    class Meter:
        total = 0.0

    meter, log, pairs = Meter(), [], {}

    @torch.compile
    def step(x):
        meter.total += (x * 2).sum().item()
        log.append((x * 3).sum().item())
        pairs["last"] = (x.shape, (x * 4).sum().item())
        return x * 2

    frozen()
    for i in range(1, 4):
        step(torch.ones(3))
        assert type(meter.total) is float and meter.total == 6 * i
        assert {type(number) for number in log} == {float} and log == [9.0] * i
        assert type(pairs["last"][1]) is float and pairs["last"][1] == 12


@pytest.mark.parametrize(
    "before, frozen, enabled",
    [("", True, True), ("gc.disable()", True, False), ("many = [[] for _ in range(40000)]", False, True)],
)
def test_collections_leave_out_what_an_import_at_the_beginning_made(before, frozen, enabled):
    """Not where a program has done something before: its objects would be left out, too."""
    code = f"""
import gc, sys
{before}
try:
    sys.modules["numpy"] = None  # an import that fails leaves the collector as it was
    import flambeau
except ImportError:
    assert gc.isenabled() is {enabled} and not gc.get_freeze_count()
del sys.modules["numpy"]
for name in [name for name in sys.modules if name.startswith("flambeau")]:
    del sys.modules[name]
import flambeau as torch
assert gc.isenabled() is {enabled} and (gc.get_freeze_count() > 0) is {frozen}, gc.get_freeze_count()

class Own:
    pass

own = Own()
own.itself, own.tensor = own, torch.ones(3)
import weakref
gone = weakref.ref(own)
torch.ones(3).untyped_storage().resize_(64)  # which looks for owners among all objects
assert not gc.get_freeze_count()  # and leaves none out that were made since
del own
gc.collect()
assert gone() is None
"""
    subprocess.run([sys.executable, "-c", code], check=True)
