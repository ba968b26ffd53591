"""The `forward` of our losses as TorchScript, for modules that are written as programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import nn
from ._trace_code import literal

_NUMBERS = {"none": 0, "mean": 1, "sum": 2}
_TWO, _THREE = ("input", "target"), ("input1", "input2", "target")


def _call(op: str, *given: str, names: tuple[str, ...] = _TWO) -> Callable[[Any], str]:
    """`torch.op(tensors, attributes…)`; of attributes, "*name" is a tensor or None, and "reduction" a number."""

    def text(m: Any) -> str:
        def value(name: str) -> str:
            if name[0] == "*":
                return f"self.{name[1:]}"
            return literal(_NUMBERS[m.reduction] if name == "reduction" else getattr(m, name))

        return _forward(names, f"return torch.{op}({', '.join([*names, *map(value, given)])})")

    return text


def _forward(names: tuple[str, ...], body: str) -> str:
    return f"def forward(self,\n    {', '.join(f'{name}: Tensor' for name in names)}) -> Tensor:\n  {body}"


def _divergence(m: Any) -> str:
    whole = m.reduction == "batchmean"
    call = f"torch.kl_div(input, target, {2 if whole else _NUMBERS[m.reduction]}, log_target={m.log_target})"
    return _forward(_TWO, f"return torch.div({call}, torch.size(input, 0))" if whole else f"return {call}")


def _labels(m: Any) -> str:
    """Each label is a question of its own, whose answers are averaged."""
    yes, no = (
        "torch.mul(target, torch.log_sigmoid(input))",
        "torch.mul(torch.rsub(target, 1), torch.log_sigmoid(torch.neg(input)))",
    )
    weight = "torch.mul(each, self.weight)" if m.weight is not None else "each"
    mean = {"none": "loss", "mean": "torch.mean(loss)", "sum": "torch.sum(loss)"}[m.reduction]
    return _forward(
        _TWO, f"each = torch.neg(torch.add({yes}, {no}))\n  loss = torch.mean({weight}, [-1])\n  return {mean}"
    )


TEXTS: dict[type, Callable[[Any], str]] = {
    nn.MSELoss: _call("mse_loss", "reduction"),
    nn.L1Loss: _call("l1_loss", "reduction"),
    nn.SmoothL1Loss: _call("smooth_l1_loss", "reduction", "beta"),
    nn.HuberLoss: _call("huber_loss", "reduction", "delta"),
    nn.CrossEntropyLoss: _call("cross_entropy_loss", "*weight", "reduction", "ignore_index", "label_smoothing"),
    nn.NLLLoss: _call("nll_loss_nd", "*weight", "reduction", "ignore_index"),
    nn.BCELoss: _call("binary_cross_entropy", "*weight", "reduction"),
    nn.BCEWithLogitsLoss: _call("binary_cross_entropy_with_logits", "*weight", "*pos_weight", "reduction"),
    nn.KLDivLoss: _divergence,
    nn.PoissonNLLLoss: _call("poisson_nll_loss", "log_input", "full", "eps", "reduction"),
    nn.HingeEmbeddingLoss: _call("hinge_embedding_loss", "margin", "reduction"),
    nn.SoftMarginLoss: _call("soft_margin_loss", "reduction"),
    nn.MultiMarginLoss: _call("multi_margin_loss", "p", "margin", "*weight", "reduction"),
    nn.MultiLabelMarginLoss: _call("multilabel_margin_loss", "reduction"),
    nn.MultiLabelSoftMarginLoss: _labels,
    nn.CosineEmbeddingLoss: _call("cosine_embedding_loss", "margin", "reduction", names=_THREE),
    nn.MarginRankingLoss: _call("margin_ranking_loss", "margin", "reduction", names=_THREE),
    nn.CTCLoss: _call(
        "ctc_loss",
        "blank",
        "reduction",
        "zero_infinity",
        names=("log_probs", "targets", "input_lengths", "target_lengths"),
    ),
}
