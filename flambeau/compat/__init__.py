"""Programs written for PyTorch, unchanged: `import torch` gives flambeau."""

from .alias import TorchVersion, install_as_torch

__all__ = ["TorchVersion", "install_as_torch"]
