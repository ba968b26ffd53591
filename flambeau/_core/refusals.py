"""An error that parts of the package tell from others."""

from __future__ import annotations


class ValuesRead(RuntimeError):
    """Something wanted the elements of a batched tensor, which differ from sample to sample.

    `by` names the functions that have no answer for a batch, even where the samples' own could be stacked.
    """

    def __init__(self, message: str, by: tuple[str, ...] = ()):
        super().__init__(message)
        self.by = by
