"""Programs along rows whose results are made where their operands were, with the bits that they have elsewhere."""

import pytest

import flambeau as torch
from flambeau._compile import bands
from flambeau._compile.steps import Loop
from flambeau._kernel.folds.rows import in_place
from flambeau._kernel.loops.ufunc import addresses
from flambeau.compiler._region import Region
from flambeau.nn import functional as F

FUNCTIONS = {
    "softmax": lambda x: torch.softmax(x, -1),
    "softmax of columns": lambda x: torch.softmax(x, 0),
    "log_softmax": lambda x: torch.log_softmax(x, -1),
    "log_softmax of columns": lambda x: torch.log_softmax(x, 0),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:]),
    "softmax of softmax": lambda x: torch.softmax(torch.softmax(x, -1), -1),
}


def steps_in(region):
    program = region.entries[0].program.forward_program._lowered
    return [step for part in program.parts for step in getattr(part, "steps", ())]


def overlaid(region):
    """Programs along rows that write where they read."""
    loops = [step for step in steps_in(region) if isinstance(step, Loop) and addresses.get(step.ufunc) in in_place]
    return [s for s in loops if s.operands[0][0].instead or s.operands[s.ufunc.nin][0].instead]


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(30, 70), (300, 700), (1500, 1300)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_have_the_bits_of_eager_ones(name, shape, dtype, monkeypatch):
    monkeypatch.setattr(bands, "strip_bytes", lambda: 1 << 60)  # large values have memory, too
    function = FUNCTIONS[name]
    torch.manual_seed(0)
    x = torch.randn(shape, dtype=dtype)
    whole = lambda x: function(torch.roll(x, 1, 0)).cumsum(1)
    region = Region(whole)
    with torch.no_grad():
        for _ in range(3):
            found = region(x)
        assert region.problem is None and torch.equal(found, whole(x))
    if dtype in (torch.float32, torch.float64) and "columns" not in name:  # which threads may share
        assert overlaid(region)


def scores():
    torch.manual_seed(0)
    layer = torch.nn.Linear(32, 600)
    return layer, torch.randn(300, 32), torch.randint(0, 600, (300,))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_slopes_are_made_where_the_scores_were(smoothing):
    layer, x, y = scores()

    def function(x, y):
        layer.zero_grad()
        loss = F.cross_entropy(layer(x), y, label_smoothing=smoothing)
        loss.backward()
        return loss.detach()

    expected = function(x, y), layer.weight.grad.clone(), layer.bias.grad.clone()
    region = Region(function)
    for _ in range(3):
        found = region(x, y), layer.weight.grad, layer.bias.grad
    assert region.problem is None and overlaid(region)
    assert all(torch.equal(a, b) for a, b in zip(found, expected))


def test_a_wrong_class_is_named_when_the_scores_are_gone():
    layer, x, y = scores()
    region = Region(lambda x, y: F.cross_entropy(layer(x), y))
    for _ in range(3):
        loss = region(x, y)
    assert overlaid(region)
    wrong = y.clone()
    wrong[7] = 600
    with pytest.raises(IndexError, match=r"Target 600 is out of bounds"):
        region(x, wrong)
    assert torch.equal(region(x, y), loss)
