"""Where in a model an error was, what is meant by misspelt names, and tracebacks that end at the user's line."""

import os
import subprocess
import sys
import textwrap

import pytest

import flambeau as torch
from flambeau import nn
from flambeau._errors import nearest, taught


class Block(nn.Module):
    def __init__(self, given, taken):
        super().__init__()
        self.linear = nn.Linear(given, taken)

    def forward(self, x):
        return torch.relu(self.linear(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.ModuleList([Block(4, 4), Block(4, 3), Block(5, 2)])

    def forward(self, x):
        for block in self.encoder:
            x = block(x)
        return x


def test_the_path_of_the_module():
    model = Model()
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied") as caught:
        model(torch.ones(2, 4))
    text = str(caught.value)
    assert "in model.encoder.2.linear (Linear): expects 5 features in the last dimension, got [2, 3] from Relu" in text
    assert text.endswith("fix: make it Linear(3, …), or let what comes before give 5 features")
    assert text.count("fix:") == 1 and text.count("\n  in ") == 1


def test_a_model_without_a_name_is_called_by_its_class():
    with pytest.raises(RuntimeError) as caught:
        Model()(torch.ones(2, 4))
    assert "in Model.encoder.2.linear (Linear)" in str(caught.value)


def test_a_layer_that_needs_a_flat_input():
    layer = nn.Linear(12, 2)
    with pytest.raises(RuntimeError, match=r"fix: flatten its input first: x\.flatten\(1\) has 12 features"):
        layer(torch.ones(5, 3, 4))


def test_errors_of_the_program_stay_as_they_are():
    class Own(nn.Module):
        def forward(self, x):
            raise RuntimeError("shapes cannot be multiplied, says the program")

    with pytest.raises(RuntimeError) as caught:
        nn.Sequential(Own())(torch.ones(1))
    assert str(caught.value) == "shapes cannot be multiplied, says the program"


def test_errors_with_other_arguments_stay_as_they_are():
    for error in (KeyError(3), OSError(2, "no file"), RuntimeError()):
        before = error.args
        assert taught(error).args == before


def test_nearest():
    assert nearest("wieght", ["weight", "bias"]) == "weight"
    assert nearest("something else", ["weight", "bias"]) is None


def test_a_checkpoint_that_does_not_fit_is_a_table():
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    state = {f"module.{key}": t for key, t in model.state_dict().items()}
    with pytest.raises(RuntimeError, match="Missing key") as caught:
        model.load_state_dict(state)
    assert "removeprefix('module.')" in str(caught.value)
    state = dict(model.state_dict(), **{"0.weight": torch.ones(4, 2)})
    state["1.runing_mean"] = state.pop("1.running_mean")
    with pytest.raises(RuntimeError) as caught:
        model.load_state_dict(state)
    rows = [line.split() for line in str(caught.value).splitlines()]
    assert ["reshaped", "0.weight", "[3,", "2]", "[4,", "2]"] in rows
    assert ["missing", "1.running_mean", "[3]", "[3]", "did", "you", "mean", "'1.runing_mean'?"] in rows


def test_a_table_is_bounded():
    model = nn.Sequential(*[nn.Linear(1, 1) for _ in range(20)])
    with pytest.raises(RuntimeError, match="… and 28 more"):
        model.load_state_dict({})


def run(folder, text, **more):
    path = folder / "program.py"
    path.write_text(textwrap.dedent(text))
    made = subprocess.run(
        [sys.executable, "-m", "flambeau", "run", str(path)],
        capture_output=True, text=True, env={**os.environ, **more}, timeout=120,
    )  # fmt: skip
    assert made.returncode == 1, made.stderr
    return made.stderr


PROGRAM = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(5, 4))

        def forward(self, x):
            return self.body(x)

    net = Net()
    net(torch.ones(2, 5))
"""


@pytest.mark.slow
def test_tracebacks_end_at_the_programs_line(tmp_path):
    text = run(tmp_path, PROGRAM)
    assert "return self.body(x)" in text and "frames inside flambeau are not shown" in text
    assert "container.py" not in text and "runpy" not in text and "_command" not in text
    assert "in net.body.2 (Linear)" in text
    full = run(tmp_path, PROGRAM, FLAMBEAU_FULL_TRACEBACK="1")
    assert "container.py" in full and "not shown" not in full


@pytest.mark.slow
def test_misspelt_names(tmp_path):
    assert "Did you mean: 'softmax'?" in run(tmp_path, "import torch\ntorch.sofmax(1)")
    assert run(tmp_path, "import torch\ntorch.ones(2).reshpae(2)").count("Did you mean: 'reshape'?") == 1
    assert "did you mean 'bias'?" in run(tmp_path, "import torch\ntorch.nn.Linear(3, 2, biass=True)")
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'dmi'.*\n.*did you mean 'dim'"):
        torch.cumsum(torch.ones(3), dmi=0)


def test_a_name_is_not_meant_by_itself():
    with pytest.raises(TypeError, match="unexpected keyword argument 'out'") as caught:
        torch.relu(torch.ones(3), out=torch.ones(3))
    assert "did you mean" not in str(caught.value)


@pytest.mark.slow
def test_errors_that_are_not_ours_are_shown_as_ever(tmp_path):
    text = run(tmp_path, "import torch\n{}['a']")
    assert text.rstrip().endswith("KeyError: 'a'")
