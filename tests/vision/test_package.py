"""The package as a whole: light to import, the name torchvision, and work without pillow."""

import subprocess
import sys

import pytest


def _run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.slow
def test_import_is_light():
    code = """
import sys
import flambeau.vision as vision
assert not any(name.startswith('flambeau.vision.') and name != 'flambeau.vision.version' for name in sys.modules)
vision.models, vision.datasets, vision.ops, vision.utils, vision.io, vision.tv_tensors, vision.transforms.v2
print(*sorted({name.split('.')[0] for name in sys.modules} & {'PIL', 'tqdm', 'llvmlite', 'cupy', 'torch'}))
"""
    assert _run(code) == []


@pytest.mark.slow
def test_alias():
    code = """
import sys
sys.modules.pop('torchvision', None)
import flambeau
flambeau.install_as_torch(children=False)
import torchvision
from torchvision.models import resnet18
from torchvision.transforms import v2
import torchvision.transforms.functional as F
from torchvision.ops.misc import Conv2dNormActivation
print(torchvision.__name__, resnet18.__module__, F.__name__)
"""
    found = _run(code)
    if found[0] == "torchvision":
        pytest.skip("the real torchvision is installed")
    assert found == ["flambeau.vision", "flambeau.vision.models.resnet", "flambeau.vision.transforms.functional"]


@pytest.mark.slow
def test_without_pillow():
    code = """
import sys
sys.modules['PIL'] = None
import flambeau as torch
from flambeau.vision import io, models, transforms
from flambeau.vision.transforms import v2
x = torch.rand(3, 8, 8)
transforms.Compose([transforms.Resize(4), transforms.RandAugment(), transforms.ToTensor() if 0 else transforms.CenterCrop(2)])((x * 255).to(torch.uint8))
v2.RandomResizedCrop(4)(x)
try:
    io.read_image('x.png')
except ModuleNotFoundError as error:
    print('pillow' in str(error))
"""
    assert _run(code) == ["True"]


def test_unknown_names():
    import flambeau.vision as vision

    with pytest.raises(AttributeError, match="detectors"):
        vision.detectors  # noqa: B018
    assert "models" in dir(vision)
    assert not hasattr(vision.models, "segmentation")
    with pytest.raises(ValueError, match="backend"):
        vision.set_image_backend("accimage")
