"""`flambeau demo`: a small convolutional network learns to read digits that the package draws itself."""

from .training import run

__all__ = ["run"]
