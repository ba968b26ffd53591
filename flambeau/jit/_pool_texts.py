"""The `forward` of our rarer pooling layers as TorchScript, for modules that are written as programs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import nn
from ._trace_code import literal


def _list(values: Any) -> str:
    return f"[{', '.join(map(literal, values))}]"


def _each(value: Any, rank: int) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value] * rank


def _forward(body: str, more: str = "") -> str:
    return f"def forward(self,\n    input: Tensor{more}):\n  {body}"


def _power(rank: int) -> Callable[[Any], str]:
    def text(m: Any) -> str:
        size, p = _each(m.kernel_size, rank), float(m.norm_type)
        steps = size if m.stride is None else _each(m.stride, rank)
        call = f"torch.avg_pool{rank}d(torch.pow(input, {p}), {_list(size)}, {_list(steps)}, {_list([0] * rank)}, {m.ceil_mode})"
        total = f"torch.mul(torch.mul(torch.sign(mean), torch.relu(torch.abs(mean))), {math.prod(size)})"
        return _forward(f"mean = {call}\n  return torch.pow({total}, {1.0 / p})")

    return text


def _response(m: Any) -> str:
    """Channels are the rows of one plane for each sample, whatever comes behind them."""
    planes = "torch.reshape(torch.mul(input, input), [torch.size(input, 0), 1, torch.size(input, 1), -1])"
    pool = (
        f"torch.avg_pool2d(torch.pad(squares, {_list([0, 0, m.size // 2, (m.size - 1) // 2])}), [{m.size}, 1], [1, 1])"
    )
    scale = f"torch.pow(torch.add(torch.mul(mean, {float(m.alpha)}), {float(m.k)}), {float(m.beta)})"
    return _forward(
        f"squares = {planes}\n  mean = torch.reshape({pool}, torch.size(input))\n  return torch.div(input, {scale})"
    )


def _fractional(rank: int) -> Callable[[Any], str]:
    def text(m: Any) -> str:
        if m._random_samples is not None:
            raise RuntimeError(
                f"{type(m).__name__} with samples of its own cannot be written as TorchScript; use torch.jit.trace"
            )
        if m.output_size is not None:
            sizes = _list(_each(m.output_size, rank))
        else:
            ratios = _each(m.output_ratio, rank)
            sizes = (
                f"[{', '.join(f'int(torch.mul(torch.size(input, {i - rank}), {r}))' for i, r in enumerate(ratios))}]"
            )
        channels = f"torch.size(input, {-rank - 1})"
        options = "dtype=ops.prim.dtype(input), device=ops.prim.device(input)"
        call = f"torch.fractional_max_pool{rank}d(input, {_list(_each(m.kernel_size, rank))}, {sizes}, samples)"
        return _forward(
            f"if torch.eq(torch.dim(input), {rank + 1}):\n    count = 1\n  else:\n    count = torch.size(input, 0)\n"
            f"  samples = torch.rand([count, {channels}, {rank}], {options})\n"
            f"  out, places = {call}\n  return {'(out, places)' if m.return_indices else 'out'}"
        )

    return text


def _unpool(rank: int) -> Callable[[Any], str]:
    def text(m: Any) -> str:
        size, steps, padding = (_each(v, rank) for v in (m.kernel_size, m.stride, m.padding))
        usual = [
            f"torch.add(torch.mul(torch.sub(torch.size(input, {i - rank}), 1), {s}), {k - 2 * p})"
            for i, (k, s, p) in enumerate(zip(size, steps, padding))
        ]
        chosen = "unchecked_cast(List[int], output_size)"
        more = ",\n    indices: Tensor,\n    output_size: Optional[List[int]]=None"
        start = (
            f"if torch.__is__(output_size, None):\n    sizes = [{', '.join(usual)}]\n"
            f"  else:\n    sizes = torch.slice({chosen}, {-rank}, None, 1)\n  "
        )
        if rank == 3:
            return _forward(
                f"{start}return torch.max_unpool3d(input, indices, sizes, {_list(steps)}, {_list(padding)})", more
            )
        if rank == 2:
            return _forward(f"{start}return torch.max_unpool2d(input, indices, sizes)", more)
        lines = "torch.unsqueeze(input, -1), torch.unsqueeze(indices, -1), [sizes[0], 1]"
        return _forward(f"{start}return torch.squeeze(torch.max_unpool2d({lines}), -1)", more)

    return text


TEXTS: dict[type, Callable[[Any], str]] = {
    nn.LPPool1d: _power(1), nn.LPPool2d: _power(2), nn.LPPool3d: _power(3), nn.LocalResponseNorm: _response,
    nn.FractionalMaxPool2d: _fractional(2), nn.FractionalMaxPool3d: _fractional(3),
    nn.MaxUnpool1d: _unpool(1), nn.MaxUnpool2d: _unpool(2), nn.MaxUnpool3d: _unpool(3),
}  # fmt: skip
