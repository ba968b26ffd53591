"""Control flow as functions: branches, loops and scans over tensors, run directly."""

from .associative_scan import associative_scan
from .control_flow import cond, map, scan, while_loop

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop"]
