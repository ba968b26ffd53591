"""What signals do in a worker, and what a worker that ended because of one says."""

from __future__ import annotations

import signal
import threading


def set_worker_handlers() -> None:
    """In a worker SIGTERM ends the process, whatever the main process had chosen for itself."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def how_it_ended(exit_code: int | None) -> str:
    """Words for a process's exit code."""
    if exit_code is None:
        return "closed its connection"
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    try:
        return f"was ended by the signal {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"was ended by signal {-exit_code}"
