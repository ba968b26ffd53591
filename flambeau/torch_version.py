"""The version of the interface as a string that compares by its numbers."""

from .compat.alias import PACKAGES, TorchVersion

__all__ = ["TorchVersion"]

__version__ = TorchVersion(PACKAGES["torch"][1])
