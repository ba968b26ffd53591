"""What editors and IPython offer after operators, indexing and calls: they read the stubs and annotations."""

import sys
from pathlib import Path

import pytest

jedi = pytest.importorskip("jedi")
ROOT = Path(__file__).resolve().parents[2]
BEGIN = """import flambeau as torch
from flambeau import nn
x = torch.randn(3, 3)
m = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
layers = nn.ModuleList([nn.Linear(2, 3)])
"""


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory):
    """Processes that share jedi's cache read each other's half-written files."""
    before, jedi.settings.cache_directory = jedi.settings.cache_directory, str(tmp_path_factory.mktemp("jedi"))
    yield
    jedi.settings.cache_directory = before


def offered(expression):
    project = jedi.Project(ROOT, sys_path=[str(ROOT), *sys.path])
    return {c.name for c in jedi.Script(BEGIN + expression, project=project).complete()}


@pytest.mark.slow
@pytest.mark.parametrize(
    "expression", ["(x + 1).", "(x @ x).", "x[0].", "x.T.", "x.sum().", "torch.tanh(x).", "torch.max(x, 1).values."]
)
def test_tensors(expression):
    assert {"backward", "requires_grad_", "softmax"} <= offered(expression)


@pytest.mark.slow
@pytest.mark.parametrize("expression", ["m[0].", "m[1:].", "m[1:][0].", "layers[0]."])
def test_modules(expression):
    assert {"forward", "parameters", "state_dict"} <= offered(expression)
