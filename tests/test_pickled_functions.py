"""Every public function can be pickled, so that models which hold one (`self.activation = torch.relu`) can be saved."""

import pickle

import pytest

import flambeau as torch
from flambeau._ops.registry import functions


@pytest.mark.parametrize(
    "path", ["relu", "sigmoid", "fft.fft", "special.erf", "nn.functional.tanh", "nn.functional.gelu"]
)
def test_some(path):
    function = torch
    for part in path.split("."):
        function = getattr(function, part)
    assert pickle.loads(pickle.dumps(function)) is function


def test_all():
    for path in functions:
        module, _, name = path.rpartition(".")
        if module != "Tensor":
            home = torch
            for part in module.split(".") if module else ():
                home = getattr(home, part)
            assert pickle.loads(pickle.dumps(getattr(home, name))) is getattr(home, name), path
