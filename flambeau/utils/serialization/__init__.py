"""How files are written and read: the switches in `config`."""

from . import config as config

__all__ = ["config"]
