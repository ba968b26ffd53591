"""Neural networks: layers, containers, losses, and the functions behind them."""

# ruff: noqa: F403 (the layers say in `modules.__all__` what is public)

from .._core.submodules import submodule as _submodule
from . import attention as attention
from . import common_types as common_types
from . import functional as functional
from . import grad as grad
from . import init as init
from . import modules as modules
from . import parallel as parallel
from . import parameter as parameter
from . import utils as utils
from .modules import *
from .modules.utils import factory_kwargs as factory_kwargs
from .parallel import DataParallel as DataParallel
from .parameter import Buffer as Buffer
from .parameter import Parameter as Parameter
from .parameter import UninitializedBuffer as UninitializedBuffer
from .parameter import UninitializedParameter as UninitializedParameter

functional.grad = grad  # type: ignore[attr-defined]  # PyTorch's has it there as well


def __getattr__(name: str) -> object:
    """Loads parts at their first use."""
    return _submodule(__name__, name)
