"""Steps for samples with keys."""

from . import pipes

Batcher = pipes.BatcherMapDataPipe
Concater = pipes.ConcaterMapDataPipe
Mapper = pipes.MapperMapDataPipe
SequenceWrapper = pipes.SequenceWrapperMapDataPipe
Shuffler = pipes.ShufflerIterDataPipe
Zipper = pipes.ZipperMapDataPipe

__all__ = ["Batcher", "Concater", "Mapper", "SequenceWrapper", "Shuffler", "Zipper"]
