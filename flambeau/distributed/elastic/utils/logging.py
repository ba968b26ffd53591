"""The loggers of launchers."""

from __future__ import annotations

import inspect
import logging
import os

__all__ = ["get_logger"]


def get_logger(name: str | None = None) -> logging.Logger:
    """A logger, by default that of the calling module, at the level that the variable LOGLEVEL names (WARNING without)."""
    if name is None:
        frame = inspect.stack()[1].frame
        name = str(frame.f_globals.get("__name__", "torch.distributed.elastic"))
    logger = logging.getLogger(name)
    logger.setLevel(os.environ.get("LOGLEVEL", "WARNING"))
    return logger
