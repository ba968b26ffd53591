"""Tools around tensors."""
from . import dlpack as dlpack
