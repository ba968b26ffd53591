"""Sequences of different lengths in one tensor: padded to the longest, or packed step by step without padding."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ..._core.dtypes import int64
from ..._core.state import CUDA
from ..._ops.layers.recurrent import elements, packed_steps
from ..._ops.making.factory import finished
from ..._ops.registry import ops
from ..._tensor import Tensor

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence", "pad_sequence",
    "unpack_sequence", "unpad_sequence",
]  # fmt: skip


class PackedSequence_(NamedTuple):
    """The fields of a packed sequence."""

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(PackedSequence_):
    """Sequences without padding: `data` has the first elements of all sequences, then the second ones, and so on;
    `batch_sizes` says how many there are at each step.

    >>> import flambeau as torch
    >>> packed = torch.nn.utils.rnn.pack_sequence([torch.tensor([1, 2, 3]), torch.tensor([4])])
    >>> packed.data, packed.batch_sizes
    (tensor([1, 4, 2, 3]), tensor([2, 1, 1]))
    """

    def __new__(
        cls, data: Any, batch_sizes: Tensor | None = None, sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:  # fmt: skip
        if batch_sizes is None:
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                raise AssertionError("Expected data to be a list or tuple of length 2, (data, batch_sizes)")
            data, batch_sizes = data
            sorted_indices = None
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU; make packed sequences with pack_sequence and the like"
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def _moved(self, data: Tensor) -> PackedSequence:
        """With other data; the indices follow to its device."""
        if data is self.data:
            return self
        indices = [i if i is None else i.to(data.device) for i in self[2:]]
        return type(self)(data, self.batch_sizes, *indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Dtype or device conversion of the data, as `Tensor.to`; itself if nothing changes."""
        return self._moved(self.data.to(*args, **kwargs))

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """On a GPU."""
        return self._moved(self.data.cuda(*args, **kwargs))

    def cpu(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """In main memory."""
        return self.to("cpu")

    def pin_memory(self) -> PackedSequence:
        """With its data in pinned memory."""
        indices = [i if i is None else i.pin_memory() for i in self[2:]]
        return type(self)(self.data.pin_memory(), self.batch_sizes, *indices)

    def double(self) -> PackedSequence:
        return self._moved(self.data.double())

    def float(self) -> PackedSequence:
        return self._moved(self.data.float())

    def half(self) -> PackedSequence:
        return self._moved(self.data.half())

    def long(self) -> PackedSequence:
        return self._moved(self.data.long())

    def int(self) -> PackedSequence:
        return self._moved(self.data.int())

    def short(self) -> PackedSequence:
        return self._moved(self.data.short())

    def char(self) -> PackedSequence:
        return self._moved(self.data.char())

    def byte(self) -> PackedSequence:
        return self._moved(self.data.byte())

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a GPU."""
        return bool(self.data._k & CUDA)

    def is_pinned(self) -> bool:
        """Whether the data is in pinned memory."""
        return self.data.is_pinned()


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes another.

    >>> import flambeau as torch
    >>> torch.nn.utils.rnn.invert_permutation(torch.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    if permutation is None:
        return None
    numbers = ops.arange(0, permutation._array.size, device=permutation.device)
    return ops.scatter(ops.empty_like(permutation), 0, permutation, numbers)


def _numbers(array: Any) -> Tensor:
    return finished(np.ascontiguousarray(array, np.int64), int64, 0)


def _on(array: Any, like: Tensor) -> Tensor:
    """Index numbers as a tensor on the device of another."""
    made = _numbers(array)
    return made if like.device.type == "cpu" else made.to(like.device)


def _places(counts: Any) -> tuple[Any, Any]:
    """Step and place in its batch of every packed row, given how many rows each step has."""
    step = np.repeat(np.arange(len(counts)), counts)
    start = np.cumsum(counts) - counts
    return step, np.arange(len(step)) - start[step]


def _lengths(lengths: Any, batch: int) -> Any:
    if isinstance(lengths, Tensor):
        if lengths._array.ndim != 1 or lengths.device.type != "cpu":
            kind = f"{lengths._array.ndim}D {lengths.device.type}"
            raise RuntimeError(
                f"'lengths' argument should be a 1D CPU int64 tensor, but got {kind} {lengths.dtype} tensor"
            )
        lengths = elements(lengths)
    lengths = np.asarray(lengths).astype(np.int64)
    if lengths.shape != (batch,):
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {lengths.size} (batch_size={batch})"
        )
    return lengths


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | list[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Packs padded sequences (steps, batch, …), or (batch, steps, …) if `batch_first`, without their padding.

    The sequences are sorted by decreasing length here, unless `enforce_sorted` says that they must be already.

    >>> import flambeau as torch
    >>> padded = torch.tensor([[1, 2, 0], [3, 0, 0], [4, 5, 6]])
    >>> torch.nn.utils.rnn.pack_padded_sequence(padded, [2, 1, 3], batch_first=True, enforce_sorted=False).data
    tensor([4, 1, 3, 5, 2, 6])
    """
    if input._array.ndim < 2:
        raise IndexError("Dimension out of range: pack_padded_sequence wants at least two dimensions")
    if not input._array.size:
        raise RuntimeError("Cannot pack empty tensors.")
    shape = input._array.shape
    longest, batch = (shape[1], shape[0]) if batch_first else shape[:2]
    numbers = _lengths(lengths, batch)
    order = None
    if not enforce_sorted:
        order = np.argsort(-numbers, kind="stable")
        numbers = numbers[order]
    if int(numbers.min()) <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if bool((numbers[1:] > numbers[:-1]).any()):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to have it sorted."
        )
    if int(numbers[0]) > longest:
        raise RuntimeError(
            f"a sequence cannot be longer ({int(numbers[0])}) than the padded input has steps ({longest})"
        )
    counts = batch - np.searchsorted(numbers[::-1], np.arange(int(numbers[0])), side="right")
    step, place = _places(counts)
    if order is not None:
        place = order[place]
    rows = place * longest + step if batch_first else step * batch + place
    data = ops.index_select(ops.reshape(input, (longest * batch, *shape[2:])), 0, _on(rows, input))
    indices = None if order is None else _on(order, input)
    return PackedSequence(data, _numbers(counts), indices, None)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """Padded sequences (steps, batch, …), or (batch, steps, …), and their lengths, from packed ones."""
    data, batch_sizes, _, unsorted = sequence
    steps = packed_steps(batch_sizes, data._array.shape[0])
    length = steps.length
    if total_length is not None:
        if total_length < length:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {length}"
            )
        length = total_length
    counts, batch = steps.counts, steps.batch
    step, place = _places(counts)
    lengths = np.searchsorted(-counts, -np.arange(batch), side="left")
    if unsorted is not None:
        back = elements(unsorted.cpu())
        lengths = lengths[back]
        place = np.argsort(back, kind="stable")[place]
    shape = data._array.shape[1:]
    padded = ops.full((length * batch, *shape), float(padding_value), dtype=data.dtype, device=data.device)
    if steps.rows < data._array.shape[0]:
        data = ops.narrow(data, 0, 0, steps.rows)
    rows = place * length + step if batch_first else step * batch + place
    padded = ops.index_copy(padded, 0, _on(rows, data), data)
    outer = (batch, length) if batch_first else (length, batch)
    return ops.reshape(padded, (*outer, *shape)), _numbers(lengths)


def pad_sequence(
    sequences: Iterable[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Stacks sequences (length, …) to (steps, batch, …), or (batch, steps, …), padding the shorter ones.

    >>> import flambeau as torch
    >>> torch.nn.utils.rnn.pad_sequence([torch.tensor([1, 2]), torch.tensor([3])], batch_first=True)
    tensor([[1, 2],
            [3, 0]])
    """
    if isinstance(sequences, Tensor):
        sequences = ops.unbind(sequences, 0)
    elif not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    given = list(sequences)
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    if not given:
        raise RuntimeError("received an empty list of sequences")
    for i, t in enumerate(given):
        if not isinstance(t, Tensor):
            raise TypeError(f"expected Tensor as element {i} in argument 0, but got {type(t).__name__}")
    first = given[0]
    rest, batch = first._array.shape[1:], len(given)
    if not first._array.ndim or any(t._array.ndim == 0 or t._array.shape[1:] != rest for t in given):
        shapes = ", ".join(str(list(t._array.shape)) for t in given[:4])
        raise RuntimeError(f"pad_sequence: the sizes of tensors must match but for the first dimension, got {shapes}")
    lengths = np.array([t._array.shape[0] for t in given])
    length = int(lengths.max())
    number, step = _places(lengths)
    if padding_side == "left":
        step = step + (length - lengths)[number]
    rows = number * length + step if batch_first else step * batch + number
    padded = ops.full((length * batch, *rest), float(padding_value), dtype=first.dtype, device=first.device)
    joined = ops.cat([t if t.dtype is first.dtype else ops.to_dtype(t, first.dtype) for t in given], 0)
    padded = ops.index_copy(padded, 0, _on(rows, first), joined)
    outer = (batch, length) if batch_first else (length, batch)
    return ops.reshape(padded, (*outer, *rest))


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences of a padded batch, each as long as `lengths` says."""
    each = ops.unbind(padded_sequences, 0 if batch_first else 1)
    longest = padded_sequences._array.shape[1 if batch_first else 0]
    sizes = lengths.tolist()
    return [ops.clone(ops.narrow(t, 0, 0, max(0, min(n, longest)))) for t, n in zip(each, sizes, strict=True)]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Packs sequences of different lengths.

    >>> import flambeau as torch
    >>> torch.nn.utils.rnn.pack_sequence([torch.tensor([1, 2]), torch.tensor([3])]).data
    tensor([1, 3, 2])
    """
    lengths = [t._array.shape[0] for t in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences that were packed, in their order."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
