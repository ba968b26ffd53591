"""Steps for streams of samples."""

from . import pipes

Batcher = pipes.BatcherIterDataPipe
Collator = pipes.CollatorIterDataPipe
Concater = pipes.ConcaterIterDataPipe
Filter = pipes.FilterIterDataPipe
IterableWrapper = pipes.IterableWrapperIterDataPipe
Mapper = pipes.MapperIterDataPipe
Multiplexer = pipes.MultiplexerIterDataPipe
Sampler = pipes.SamplerIterDataPipe
ShardingFilter = pipes.ShardingFilterIterDataPipe
Shuffler = pipes.ShufflerIterDataPipe
UnBatcher = pipes.UnBatcherIterDataPipe
Zipper = pipes.ZipperIterDataPipe

__all__ = [
    "Batcher", "Collator", "Concater", "Filter", "IterableWrapper", "Mapper", "Multiplexer", "Sampler",
    "ShardingFilter", "Shuffler", "UnBatcher", "Zipper",
]  # fmt: skip
