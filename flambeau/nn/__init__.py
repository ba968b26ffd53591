"""Neural networks."""

from . import functional as functional
from . import parameter as parameter
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter
