"""Logs for TensorBoard. The names here load the `tensorboard` package, which is installed separately."""

from __future__ import annotations

from typing import Any

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import _protos

    _protos.require()
    if name == "RecordWriter":
        from tensorboard.summary.writer.record_writer import RecordWriter

        return RecordWriter
    from . import writer

    return getattr(writer, name)
