"""`torch.cuda.streams`: queues of GPU work, and marks in them."""

from . import Event, Stream

__all__ = ["Event", "Stream"]
