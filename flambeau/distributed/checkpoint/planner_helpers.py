"""From tensors and objects to the items of plans."""

from __future__ import annotations

from typing import Any

from ..._core.sizes import Size
from ..._tensor import Tensor
from ..tensor._dtensor import DTensor
from ..tensor._utils import compute_local_shape_and_global_offset
from ..tensor.placement_types import Partial
from .metadata import BytesStorageMetadata, ChunkStorageMetadata, MetadataIndex, TensorProperties, TensorStorageMetadata
from .planner import LoadItemType, ReadItem, TensorWriteData, WriteItem, WriteItemType

__all__ = ["create_read_items_for_chunk_list"]


def local_chunk(value: Tensor) -> tuple[Tensor, ChunkStorageMetadata]:
    """What this process has of a tensor, and which part of it that is."""
    if not isinstance(value, DTensor):
        return value.detach(), ChunkStorageMetadata(Size([0] * value.dim()), Size(value.shape))
    if any(isinstance(placement, Partial) for placement in value.placements):
        raise ValueError("a DTensor of summands (Partial) cannot be saved or loaded; redistribute it first")
    shape, offset = compute_local_shape_and_global_offset(value.shape, value.device_mesh, value.placements)
    return value.detach().to_local(), ChunkStorageMetadata(Size(offset), Size(shape))


def described(value: Tensor) -> TensorProperties:
    """What a tensor is like."""
    return TensorProperties(value.dtype, requires_grad=value.requires_grad)


def _create_write_items(fqn: str, object: Any) -> list[WriteItem]:
    """The item of a tensor's part, or of another object; none for an empty part of a divided tensor."""
    if not isinstance(object, Tensor):
        return [WriteItem(MetadataIndex(fqn), WriteItemType.BYTE_IO)]
    part, chunk = local_chunk(object)
    divided = isinstance(object, DTensor)
    if divided and not part.numel():
        return []
    data = TensorWriteData(chunk, described(object), Size(object.shape))
    kind = WriteItemType.SHARD if divided else WriteItemType.TENSOR
    return [WriteItem(MetadataIndex(fqn, chunk.offsets), kind, tensor_data=data)]


def create_read_items_for_chunk_list(
    fqn: str, checkpoint_md: TensorStorageMetadata, local_chunks: list[ChunkStorageMetadata]
) -> list[ReadItem]:
    """Which stretches of stored parts the local parts of a tensor consist of.

    >>> from flambeau.distributed.checkpoint.metadata import ChunkStorageMetadata, TensorProperties, TensorStorageMetadata
    >>> stored = TensorStorageMetadata(TensorProperties(), (4,), [ChunkStorageMetadata((0,), (2,)), ChunkStorageMetadata((2,), (2,))])
    >>> items = create_read_items_for_chunk_list("w", stored, [ChunkStorageMetadata((1,), (2,))])
    >>> [(item.storage_offsets, item.dest_offsets, item.lengths) for item in items]
    [(torch.Size([1]), torch.Size([0]), torch.Size([1])), (torch.Size([0]), torch.Size([1]), torch.Size([1]))]
    """
    items = []
    for number, own in enumerate(local_chunks):
        for place, stored in enumerate(checkpoint_md.chunks):
            begins = [max(here, there) for here, there in zip(own.offsets, stored.offsets)]
            ends = [
                min(here + count, there + length)
                for here, count, there, length in zip(own.offsets, own.sizes, stored.offsets, stored.sizes)
            ]
            lengths = [end - begin for begin, end in zip(begins, ends)]
            if all(length > 0 for length in lengths):
                items.append(
                    ReadItem(
                        LoadItemType.TENSOR,
                        MetadataIndex(fqn, Size(own.offsets), number),
                        Size([begin - here for begin, here in zip(begins, own.offsets)]),
                        MetadataIndex(fqn, Size(stored.offsets), place),
                        Size([begin - there for begin, there in zip(begins, stored.offsets)]),
                        Size(lengths),
                    )
                )
    return items


def _create_read_items(fqn: str, md: Any, obj: Any) -> list[ReadItem]:
    """The items that a tensor or object is read by; what is stored decides which of both it is."""
    if isinstance(md, BytesStorageMetadata):
        nothing = Size([0])
        return [ReadItem(LoadItemType.BYTE_IO, MetadataIndex(fqn), nothing, MetadataIndex(fqn), nothing, nothing)]
    if not isinstance(obj, Tensor):
        raise ValueError(f"{fqn} is a tensor in the checkpoint, and the state has {type(obj).__name__} in its place")
    return create_read_items_for_chunk_list(fqn, md, [local_chunk(obj)[1]])
