"""Attention and transformers as TorchScript, for modules that are written as programs."""

from __future__ import annotations

from typing import Any

from .. import nn


def attention(m: Any) -> str:
    """`MultiheadAttention.forward`: the function, on sequences whose first dimension is time."""
    own = lambda name: "None" if getattr(m, name) is None else f"self.{name}"
    weights = ", ".join(map(own, ("q_proj_weight", "k_proj_weight", "v_proj_weight")))
    first = ", ".join(map(own, ("in_proj_weight", "in_proj_bias", "bias_k", "bias_v")))
    bias = "None" if m.out_proj.bias is None else "self.out_proj.bias"
    return f"""def forward(self,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Optional[Tensor]=None,
    need_weights: bool=True,
    attn_mask: Optional[Tensor]=None,
    average_attn_weights: bool=True,
    is_causal: bool=False) -> Tuple[Tensor, Optional[Tensor]]:
  turned = torch.__and__({m.batch_first}, torch.eq(torch.dim(query), 3))
  if turned:
    q, k, v = torch.transpose(query, 0, 1), torch.transpose(key, 0, 1), torch.transpose(value, 0, 1)
  else:
    q, k, v = query, key, value
  out, weights = F.multi_head_attention_forward(q, k, v, {m.embed_dim}, {m.num_heads}, {first}, {m.add_zero_attn}, {float(m.dropout)}, self.out_proj.weight, {bias}, self.training, key_padding_mask, need_weights, attn_mask, {not m._qkv_same_embed_dim}, {weights}, None, None, average_attn_weights, is_causal)
  if turned:
    out = torch.transpose(out, 0, 1)
  return (out, weights)"""


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
