"""Attention and transformers as TorchScript, for modules that are written as programs."""

from __future__ import annotations

from typing import Any

from .. import nn


def _masked(name: str, extra: str) -> str:
    """Lines that make a mask of numbers from one of truth values; `extra` shapes it, and it joins `mask`."""
    return f"""
  if torch.__isnot__({name}, None):
    {name}_0 = unchecked_cast(Tensor, {name})
    if torch.eq(ops.prim.dtype({name}_0), 11):
      {name}_1 = torch.masked_fill(torch.zeros_like({name}_0, dtype=ops.prim.dtype(query)), {name}_0, float("-inf"))
    else:
      {name}_1 = {name}_0
    {extra}
    if torch.__isnot__(mask, None):
      mask = torch.add(unchecked_cast(Tensor, mask), {name}_2)
    else:
      mask = {name}_2"""


def attention(m: Any) -> str:
    """`MultiheadAttention.forward`, for batches."""
    if m.bias_k is not None or m.add_zero_attn:
        raise RuntimeError("attention with additional keys cannot be written as TorchScript; use torch.jit.trace")
    heads, size = m.num_heads, m.embed_dim // m.num_heads
    names = ("query", "key", "value")
    inputs = names if m.batch_first else tuple(f"torch.transpose({n}, 0, 1)" for n in names)
    lines = [] if not m._qkv_same_embed_dim else ["w = torch.chunk(self.in_proj_weight, 3)"]
    if m.in_proj_bias is not None:
        lines.append("b = torch.chunk(self.in_proj_bias, 3)")
    lines += [f"x{i} = {text}" for i, text in enumerate(inputs)]
    lines.append("n = torch.size(x0, 0)")
    for i, name in enumerate("qkv"):
        weight = f"w[{i}]" if m._qkv_same_embed_dim else f"self.{name}_proj_weight"
        bias = "None" if m.in_proj_bias is None else f"b[{i}]"
        made = f"torch.reshape(torch.linear(x{i}, {weight}, {bias}), [n, -1, {heads}, {size}])"
        lines.append(f"{name} = torch.transpose({made}, 1, 2)")
    lines.append("mask = annotate(Optional[Tensor], None)")
    whole = f"""if torch.eq(torch.dim(attn_mask_1), 3):
      attn_mask_2 = torch.reshape(attn_mask_1, [n, {heads}, torch.size(attn_mask_1, 1), torch.size(attn_mask_1, 2)])
    else:
      attn_mask_2 = attn_mask_1"""
    padding = "key_padding_mask_2 = torch.unsqueeze(torch.unsqueeze(key_padding_mask_1, 1), 2)"
    head = """def forward(self,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Optional[Tensor]=None,
    need_weights: bool=True,
    attn_mask: Optional[Tensor]=None,
    average_attn_weights: bool=True,
    is_causal: bool=False) -> Tuple[Tensor, Optional[Tensor]]:
  """
    last = "out" if m.batch_first else "torch.transpose(out, 0, 1)"
    return f"""{head}{(chr(10) + "  ").join(lines)}{_masked("attn_mask", whole)}{_masked("key_padding_mask", padding)}
  weights = annotate(Optional[Tensor], None)
  if self.training:
    p = {float(m.dropout)}
  else:
    p = 0.0
  if need_weights:
    scores = torch.matmul(torch.mul(q, {size**-0.5!r}), torch.transpose(k, -2, -1))
    if torch.__isnot__(mask, None):
      scores = torch.add(scores, unchecked_cast(Tensor, mask))
    a = torch.dropout(torch.softmax(scores, -1), {float(m.dropout)}, self.training)
    o = torch.matmul(a, v)
    if average_attn_weights:
      weights = torch.mean(a, [1])
    else:
      weights = a
  else:
    o = torch.scaled_dot_product_attention(q, k, v, mask, p, False)
  joined = torch.reshape(torch.transpose(o, 1, 2), [n, -1, {m.embed_dim}])
  out = torch.linear(joined, self.out_proj.weight, self.out_proj.bias)
  return ({last}, weights)"""


def encoder_layer(m: Any) -> str:
    """`TransformerEncoderLayer.forward`."""
    attend = "(self.self_attn).forward({0}, {0}, {0}, src_key_padding_mask, False, src_mask)[0]"
    return (
        "def forward(self,\n    src: Tensor,\n    src_mask: Optional[Tensor]=None,\n"
        "    src_key_padding_mask: Optional[Tensor]=None,\n    is_causal: bool=False) -> Tensor:\n  x = src\n  "
        + _residual(m, [attend, _feed(m)])
    )


def _feed(m: Any) -> str:
    if isinstance(m.activation, nn.Module):
        act = "(self.activation).forward"
    elif m.activation in (nn.functional.relu, nn.functional.gelu):
        act = f"torch.{m.activation.__name__}"
    else:
        raise RuntimeError(
            "this activation of a transformer layer cannot be written as TorchScript; use torch.jit.trace"
        )
    return f"(self.linear2).forward((self.dropout).forward({act}((self.linear1).forward({{0}}))))"


def _residual(m: Any, parts: list[str]) -> str:
    """The parts of a layer, each with a dropout, a norm and a way around it."""
    steps = []
    for i, part in enumerate(parts, 1):
        source = "y" if m.norm_first else "x"
        around = f"torch.add(x, (self.dropout{i}).forward({part.format(source)}))"
        if m.norm_first:
            steps += [f"y = (self.norm{i}).forward(x)", f"x = {around}"]
        else:
            steps.append(f"x = (self.norm{i}).forward({around})")
    return "\n  ".join([*steps, "return x"])


_DECODED = """def forward(self,
    tgt: Tensor,
    memory: Tensor,
    tgt_mask: Optional[Tensor]=None,
    memory_mask: Optional[Tensor]=None,
    tgt_key_padding_mask: Optional[Tensor]=None,
    memory_key_padding_mask: Optional[Tensor]=None,
    tgt_is_causal: {},
    memory_is_causal: bool=False) -> Tensor:
  x = tgt
  """


def decoder_layer(m: Any) -> str:
    """`TransformerDecoderLayer.forward`."""
    own = "(self.self_attn).forward({0}, {0}, {0}, tgt_key_padding_mask, False, tgt_mask)[0]"
    other = "(self.multihead_attn).forward({0}, memory, memory, memory_key_padding_mask, False, memory_mask)[0]"
    return _DECODED.format("bool=False") + _residual(m, [own, other, _feed(m)])


def decoder(m: Any) -> str:
    """`TransformerDecoder.forward`."""
    masks = "tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask"
    steps = [f'x = (getattr(self.layers, "{name}")).forward(x, memory, {masks})' for name in m.layers._modules]
    steps.append("return x" if m.norm is None else "return (self.norm).forward(x)")
    return _DECODED.format("Optional[bool]=None") + "\n  ".join(steps)


def transformer(m: Any) -> str:
    """`Transformer.forward`."""
    names = (
        "src_mask",
        "tgt_mask",
        "memory_mask",
        "src_key_padding_mask",
        "tgt_key_padding_mask",
        "memory_key_padding_mask",
    )
    masks = ",\n    ".join(f"{name}: Optional[Tensor]=None" for name in names)
    return f"""def forward(self,
    src: Tensor,
    tgt: Tensor,
    {masks},
    src_is_causal: Optional[bool]=None,
    tgt_is_causal: Optional[bool]=None,
    memory_is_causal: bool=False) -> Tensor:
  memory = (self.encoder).forward(src, src_mask, src_key_padding_mask)
  return (self.decoder).forward(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)"""


def encoder(m: Any) -> str:
    """`TransformerEncoder.forward`."""
    steps = ["x = src"]
    for name in m.layers._modules:
        steps.append(f'x = (getattr(self.layers, "{name}")).forward(x, mask, src_key_padding_mask)')
    steps.append("return x" if m.norm is None else "return (self.norm).forward(x)")
    return (
        "def forward(self,\n    src: Tensor,\n    mask: Optional[Tensor]=None,\n"
        "    src_key_padding_mask: Optional[Tensor]=None,\n    is_causal: Optional[bool]=None) -> Tensor:\n  "
        + "\n  ".join(steps)
    )


TEXTS = {
    nn.MultiheadAttention: attention, nn.TransformerEncoderLayer: encoder_layer, nn.TransformerEncoder: encoder,
    nn.TransformerDecoderLayer: decoder_layer, nn.TransformerDecoder: decoder, nn.Transformer: transformer,
}  # fmt: skip
