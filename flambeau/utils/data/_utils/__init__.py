"""The parts of a `DataLoader`: collating, fetching, workers and the way of their batches to the main process."""

from . import channel, collate, errors, fetch, memory, pin_memory, signal_handling, worker
from .errors import ExceptionWrapper

MP_STATUS_CHECK_INTERVAL = 5.0  # seconds that a worker is given to end by itself

__all__ = [
    "MP_STATUS_CHECK_INTERVAL", "ExceptionWrapper", "channel", "collate", "errors", "fetch", "memory", "pin_memory",
    "signal_handling", "worker",
]  # fmt: skip
