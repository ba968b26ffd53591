"""Attention whose scores are changed or hidden by functions of batch, head, query and key."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict

from ..._core.dtypes import bool_, int32
from ..._errors.frames import warn_user
from ..._ops.registry import ops
from ..._tensor import Tensor
from .. import functional as F

__all__ = [
    "AuxOutput", "AuxRequest", "BlockMask", "FlexKernelOptions", "and_masks", "create_block_mask", "create_mask",
    "flex_attention", "noop_mask", "or_masks",
]  # fmt: skip

Modifier = Callable[..., Tensor]
_DEFAULT_SPARSE_BLOCK_SIZE = 128
_PARTS = (
    "kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices", "q_num_blocks", "q_indices",
    "full_q_num_blocks", "full_q_indices",
)  # fmt: skip


class FlexKernelOptions(TypedDict, total=False):
    """Options for kernels on GPUs; accepted and not used here."""

    num_warps: int
    num_stages: int
    BLOCK_M: int
    BLOCK_N: int


class AuxRequest(NamedTuple):
    """What `flex_attention` is to give besides its result."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked for by an `AuxRequest`."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """Hides nothing."""
    return batch.new_ones((), dtype=bool_)


def _joined(mask_mods: tuple[Modifier, ...], start: bool, join: Callable[[Tensor, Tensor], Tensor]) -> Modifier:
    if not all(callable(mod) for mod in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def mask(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        result = b.new_full((), start, dtype=bool_)
        for mod in mask_mods:
            result = join(result, mod(b, h, q_idx, kv_idx))
        return result

    return mask


def or_masks(*mask_mods: Modifier) -> Modifier:
    """A mask that shows what any of several show."""
    return _joined(mask_mods, False, lambda a, b: a | b)


def and_masks(*mask_mods: Modifier) -> Modifier:
    """A mask that shows what all of several show."""
    return _joined(mask_mods, True, lambda a, b: a & b)


def _places(B: int, H: int, Q_LEN: int, KV_LEN: int, device: Any) -> list[Tensor]:
    """Batch, head, query and key of every score, each along a dimension of its own."""
    made = []
    for i, n in enumerate((B, H, Q_LEN, KV_LEN)):
        shape = [1, 1, 1, 1]
        shape[i] = n
        made.append(ops.reshape(ops.arange(n, dtype=int32, device=device), shape))
    return made


def create_mask(mod_fn: Modifier, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None) -> Tensor:
    """The mask (B, H, Q_LEN, KV_LEN) that a function of batch, head, query and key stands for.

    >>> from flambeau.nn.attention.flex_attention import create_mask
    >>> create_mask(lambda b, h, q, kv: q >= kv, None, None, 2, 2)
    tensor([[[[ True, False],
              [ True,  True]]]])
    """
    sizes = (1 if B is None else B, 1 if H is None else H, Q_LEN, KV_LEN)
    places = _places(*sizes, device)
    if _count_arguments(mod_fn) == 5:  # changes scores: what is left visible
        changed = mod_fn(ops.zeros(sizes, device=device), *places)
        return ops.expand(ops.isneginf(changed), sizes).logical_not()
    return ops.contiguous(ops.expand(mod_fn(*places), sizes))


def _count_arguments(function: Modifier) -> int:
    """How many arguments a function must be given: 5 for changes of scores, 4 for masks."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    given = inspect.signature(function).parameters.values()
    return sum(p.kind in kinds and p.default is inspect.Parameter.empty for p in given)


class BlockMask:
    """Which blocks of queries and keys see each other: wholly (`full_…`) or in part, where `mask_mod` decides.

    Made by `create_block_mask`. For every row of blocks `kv_indices` begins with the `kv_num_blocks` columns in use.
    """

    def __init__(
        self, seq_lengths: tuple[int, int], kv_num_blocks: Tensor, kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None, full_kv_indices: Tensor | None, q_num_blocks: Tensor | None,
        q_indices: Tensor | None, full_q_num_blocks: Tensor | None, full_q_indices: Tensor | None,
        BLOCK_SIZE: tuple[int, int] = (128, 128), mask_mod: Modifier = noop_mask, *,
        dq_write_order: Tensor | None = None, dq_write_order_full: Tensor | None = None,
        dq_kv_order: Tensor | None = None, dq_kv_order_spt: bool | None = None,
    ) -> None:  # fmt: skip
        # in which order a GPU's blocks add to the gradient of queries; the gradient is added in one order here
        self.dq_write_order, self.dq_write_order_full = dq_write_order, dq_write_order_full
        self.dq_kv_order, self.dq_kv_order_spt = dq_kv_order, dq_kv_order_spt
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        self.seq_lengths = seq_lengths
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices
        self.BLOCK_SIZE = BLOCK_SIZE
        self.mask_mod = mask_mod

    @classmethod
    def from_kv_blocks(
        cls, kv_num_blocks: Tensor, kv_indices: Tensor, full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None, BLOCK_SIZE: int | tuple[int, int] = 128,
        mask_mod: Modifier | None = None, seq_lengths: tuple[int, int] | None = None, compute_q_blocks: bool = True,
    ) -> BlockMask:  # fmt: skip
        """A mask from the columns that are in use in each row of blocks."""
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError("full_kv_num_blocks and full_kv_indices must be both provided or omitted")
        size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        if seq_lengths is None:
            seq_lengths = (kv_indices.shape[-2] * size[0], kv_indices.shape[-1] * size[1])
        by_queries: list[Any] = [None] * 4
        if compute_q_blocks:
            by_queries[:2] = _ordered(_dense(kv_num_blocks, kv_indices).transpose(-2, -1))
            if full_kv_num_blocks is not None:
                by_queries[2:] = _ordered(_dense(full_kv_num_blocks, full_kv_indices).transpose(-2, -1))
        return cls(
            seq_lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, *by_queries, BLOCK_SIZE=size,
            mask_mod=mask_mod or noop_mask,
        )  # fmt: skip

    @property
    def shape(self) -> tuple[int, ...]:
        """(B, H, queries, keys)."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """How many scores the mask speaks of."""
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """How many of a hundred scores lie in blocks that are not computed."""
        used = int(self.kv_num_blocks.sum())
        if self.full_kv_num_blocks is not None:
            used += int(self.full_kv_num_blocks.sum())
        return 100 * (1 - used * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1] / self.numel())

    def to_dense(self) -> Tensor:
        """1 for every block in use."""
        made = _dense(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is None:
            return made
        return ops.bitwise_or(made, _dense(self.full_kv_num_blocks, self.full_kv_indices))

    def to_string(self, grid_size: tuple[int, int] | int = (20, 20), limit: int = 4) -> str:
        """A drawing of the blocks in use; larger ones are drawn smaller."""
        rows, columns = (grid_size, grid_size) if isinstance(grid_size, int) else grid_size
        dense = self.to_dense()
        lines = []
        flat = dense.reshape(-1, *dense.shape[-2:])
        for number, picture in enumerate(flat[:limit]):
            place = []
            for n in reversed(dense.shape[:-2]):
                number, digit = divmod(number, n)
                place.insert(0, digit)
            lines += [str(tuple(place)), *_drawing(picture, rows, columns), ""]
        return "\n".join(lines)

    def __getitem__(self, index: Any) -> BlockMask:
        """The mask of some of the batch and heads."""
        index = index if isinstance(index, tuple) else (index,)
        index = tuple(slice(i, i + 1 or None) if isinstance(i, int) else i for i in index)
        parts = [None if p is None else p[index] for p in (getattr(self, name) for name in _PARTS)]
        return BlockMask(self.seq_lengths, *parts, BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=self.mask_mod)

    def _adjust(self, new_q_len: int, new_kv_len: int) -> BlockMask:
        """The same mask for fewer queries and keys."""
        rows, columns = -(-new_q_len // self.BLOCK_SIZE[0]), -(-new_kv_len // self.BLOCK_SIZE[1])
        made: list[Any] = []
        for count, indices in ((self.kv_num_blocks, self.kv_indices), (self.full_kv_num_blocks, self.full_kv_indices)):
            made += [None, None] if count is None else _ordered(_dense(count, indices)[..., :rows, :columns])
        return BlockMask.from_kv_blocks(*made, self.BLOCK_SIZE, self.mask_mod, (new_q_len, new_kv_len))

    def to(self, device: Any) -> BlockMask:
        """The mask on another device."""
        parts = [None if p is None else p.to(device) for p in (getattr(self, name) for name in _PARTS)]
        return BlockMask(self.seq_lengths, *parts, BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=self.mask_mod)

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """Everything that the mask is made of."""
        sizes = (*self.seq_lengths,) if flatten else (self.seq_lengths,)
        blocks = (*self.BLOCK_SIZE,) if flatten else (self.BLOCK_SIZE,)
        return (*sizes, *[getattr(self, name) for name in _PARTS], *blocks, self.mask_mod)

    def __str__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n{self.to_string()}\n)"

    def __repr__(self) -> str:
        shapes = [
            f"    {name}={None if part is None else part.shape},"
            for name, part in ((name, getattr(self, name)) for name in _PARTS)
        ]
        name = getattr(self.mask_mod, "__name__", self.mask_mod)
        rest = (
            f"    BLOCK_SIZE={self.BLOCK_SIZE},", f"    shape={self.shape},", f"    sparsity={self.sparsity():.2f}%,",
            f"    mask_mod={name}",
        )  # fmt: skip
        return "\n".join(["BlockMask(", *shapes, *rest, ")"])

    def _visible(self, mask: Tensor) -> Tensor:
        """A mask of scores without those in blocks that are not in use."""
        blocks = self.to_dense()
        for dim, size, length in ((-2, self.BLOCK_SIZE[0], mask.shape[-2]), (-1, self.BLOCK_SIZE[1], mask.shape[-1])):
            blocks = ops.repeat_interleave(blocks, size, dim=dim).narrow(dim, 0, length)
        return mask & (blocks != 0)


def _dense(count: Tensor, indices: Any) -> Tensor:
    """1 where a block is among the first `count` of its row's indices."""
    columns = indices.shape[-1]
    used = ops.arange(columns, device=count.device) < count.unsqueeze(-1)
    made = ops.zeros(indices.shape, dtype=int32, device=count.device)
    return ops.scatter(made, -1, indices.long(), used.to(int32))


def _ordered(dense: Tensor) -> tuple[Tensor, Tensor]:
    """How many blocks of each row are in use, and the columns with those first."""
    flags = dense.to(int32)
    order = ops.argsort(flags, dim=-1, descending=True, stable=True)
    return ops.sum(flags, -1).to(int32), order.to(int32).contiguous()


def _drawing(picture: Tensor, rows: int, columns: int) -> list[str]:
    """Lines with two characters for a block, or for a square of blocks where there are too many."""
    tall, wide = (-(-n // most) for n, most in zip(picture.shape, (rows, columns)))
    values = picture.tolist()
    lines = []
    for i in range(0, len(values), tall):
        line = ""
        for j in range(0, len(values[0]), wide):
            cells = [x for row in values[i : i + tall] for x in row[j : j + wide]]
            line += "██" if all(cells) else "░░" if any(cells) else "  "
        lines.append(line)
    return lines


def create_block_mask(
    mask_mod: Modifier, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE, _compile: bool = False,
    separate_full_blocks: bool = True, compute_dq_write_order: bool = False, dq_kv_order: bool = True,
) -> BlockMask:  # fmt: skip
    """A `BlockMask` from a function of batch, head, query and key that says what is seen.

    >>> from flambeau.nn.attention.flex_attention import create_block_mask
    >>> create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 256, 256).sparsity()
    25.0
    """
    size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    rows, columns = -(-Q_LEN // size[0]), -(-KV_LEN // size[1])
    mask = F.pad(mask, (0, columns * size[1] - KV_LEN, 0, rows * size[0] - Q_LEN))
    seen = mask.reshape(*mask.shape[:2], rows, size[0], columns, size[1]).sum((3, 5))
    whole = seen == size[0] * size[1]
    parts: list[Any] = [None, None]
    if separate_full_blocks:
        parts = list(_ordered(whole))
        partial = (seen > 0) & ~whole
    else:
        partial = seen > 0
    return BlockMask.from_kv_blocks(*_ordered(partial), *parts, size, mask_mod, (Q_LEN, KV_LEN))


def flex_attention(
    query: Tensor, key: Tensor, value: Tensor, score_mod: Modifier | None = None, block_mask: BlockMask | None = None,
    scale: float | None = None, enable_gqa: bool = False, return_lse: bool = False,
    kernel_options: FlexKernelOptions | None = None, *, return_aux: AuxRequest | None = None,
) -> Any:  # fmt: skip
    """Attention (B, H, L, E) whose scores are changed by `score_mod(score, b, h, q_idx, kv_idx)` and hidden by a mask.

    >>> import flambeau as torch
    >>> from flambeau.nn.attention.flex_attention import flex_attention
    >>> q = torch.zeros(1, 1, 2, 4)
    >>> v = torch.tensor([[[[1.0], [3.0]]]])
    >>> flex_attention(q, q, v, score_mod=lambda score, b, h, i, j: torch.where(i >= j, score, -float("inf")))
    tensor([[[[1.],
              [2.]]]])
    """
    _check(query, key, value, block_mask, enable_gqa)
    if return_lse:
        warn_user("return_lse is deprecated: use return_aux=AuxRequest(lse=True)", FutureWarning)
        if return_aux is not None:
            raise ValueError("Cannot specify both return_lse and return_aux")
    if return_aux is not None and return_aux.max_scores:
        raise NotImplementedError("Returning max scores is not supported on CPU")
    wants_lse = return_lse or (return_aux is not None and return_aux.lse)
    sizes = (query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    places = _places(*sizes, query.device)
    mask = None
    if block_mask is not None:
        mask = block_mask._visible(ops.expand(block_mask.mask_mod(*places), sizes))
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    if score_mod is None and not wants_lse:
        out, total = F.scaled_dot_product_attention(query, key, value, mask, scale=factor, enable_gqa=enable_gqa), None
    else:
        out, total = _composed(query, key, value, score_mod, mask, factor, places)
    if return_lse:
        return out, total
    return out if return_aux is None else (out, AuxOutput(lse=total if wants_lse else None))


def _composed(
    query: Tensor, key: Tensor, value: Tensor, score_mod: Modifier | None, mask: Tensor | None, scale: float,
    places: list[Tensor],
) -> tuple[Tensor, Tensor]:  # fmt: skip
    d = query.dtype
    group = query.shape[1] // key.shape[1]
    q, k, v = (ops.to_dtype(t, d.wide) for t in (query, key, value))
    if group > 1:
        k, v = (ops.repeat_interleave(t, group, dim=1) for t in (k, v))
    scores = ops.matmul(q, ops.transpose(k, -2, -1)) * scale
    if score_mod is not None:
        scores = ops.expand(score_mod(scores, *places), scores.shape).to(d.wide)
    if mask is not None:
        scores = ops.masked_fill(scores, ~mask, -math.inf)
    total = ops.logsumexp(scores, -1)
    nothing = (scores == -math.inf).all(-1, keepdim=True)
    shares = ops.masked_fill(ops.softmax(scores, -1), nothing, 0)
    return ops.to_dtype(ops.matmul(shares, v), d), total


def _check(query: Tensor, key: Tensor, value: Tensor, block_mask: BlockMask | None, enable_gqa: bool) -> None:
    if any(t.dim() != 4 for t in (query, key, value)):
        raise NotImplementedError("flex_attention: query, key, and value must be 4D tensors")
    if not all(t.dtype is query.dtype for t in (key, value)):
        raise ValueError(
            "flex_attention: expected query, key and value of one dtype, but got "
            f"{query.dtype}, {key.dtype} and {value.dtype}"
        )
    heads, shared = query.shape[1], key.shape[1]
    if not enable_gqa and heads != shared:
        raise ValueError(
            f"Expect query and key/value to have the same number of heads but got Hq={heads} and Hkv={shared}; "
            "enable_gqa=True lets heads share keys"
        )
    if enable_gqa and heads % shared:
        raise ValueError(f"Expect number of query heads to be a multiple of kv heads but got Hq={heads}, Hkv={shared}")
    if block_mask is None:
        return
    lengths = (query.shape[2], key.shape[2])
    if tuple(block_mask.seq_lengths) != lengths:
        raise ValueError(
            f"block_mask was created for block_mask.shape={block_mask.shape} but got q_len={lengths[0]} and "
            f"kv_len={lengths[1]}; create a new one, or adjust it with _adjust(q_len, kv_len)"
        )
    for own, wanted, name in zip(block_mask.shape, query.shape[:2], ("batch size", "number of heads")):
        if own not in (1, wanted):
            raise ValueError(
                f"block_mask and query must have the same {name}, or the mask's must be 1: {own}, {wanted}"
            )
