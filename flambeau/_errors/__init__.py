"""Errors that teach: what to do stands beside what was wrong, modules say where in the model it was, tracebacks end at the user's line.

Nothing here runs before an error does, but for `frames`, which finds the line of the user for others, too. The types of errors and the phrases that people search for are PyTorch's.
"""

from .advice import taught, teach
from .names import nearest

__all__ = ["nearest", "taught", "teach"]
