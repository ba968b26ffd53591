"""Steps for streams of samples."""

from ..datapipe import IterDataPipe
from . import files, grouping, pipes, splitting
from .sharding import ShardingFilterIterDataPipe as ShardingFilter

Batcher = pipes.BatcherIterDataPipe
Collator = pipes.CollatorIterDataPipe
Concater = pipes.ConcaterIterDataPipe
Demultiplexer = splitting.DemultiplexerIterDataPipe
FileLister = files.FileListerIterDataPipe
FileOpener = files.FileOpenerIterDataPipe
Filter = pipes.FilterIterDataPipe
Forker = splitting.ForkerIterDataPipe
Grouper = grouping.GrouperIterDataPipe
IterableWrapper = pipes.IterableWrapperIterDataPipe
Mapper = pipes.MapperIterDataPipe
Multiplexer = pipes.MultiplexerIterDataPipe
Sampler = pipes.SamplerIterDataPipe
Shuffler = pipes.ShufflerIterDataPipe
StreamReader = files.StreamReaderIterDataPipe
UnBatcher = pipes.UnBatcherIterDataPipe
Zipper = pipes.ZipperIterDataPipe

__all__ = [
    "Batcher", "Collator", "Concater", "Demultiplexer", "FileLister", "FileOpener", "Filter", "Forker", "Grouper",
    "IterDataPipe", "IterableWrapper", "Mapper", "Multiplexer", "Sampler", "ShardingFilter", "Shuffler", "StreamReader",
    "UnBatcher", "Zipper",
]  # fmt: skip
