"""Models for images, with torchvision's names, architectures, parameter names and initialisation."""

# ruff: noqa: F403 (each family says in `__all__` what is public)

from ._api import *
from .alexnet import *
from .convnext import *
from .densenet import *
from .efficientnet import *
from .googlenet import *
from .inception import *
from .mnasnet import *
from .mobilenet import *
from .resnet import *
from .shufflenetv2 import *
from .squeezenet import *
from .vgg import *
from .vision_transformer import *
