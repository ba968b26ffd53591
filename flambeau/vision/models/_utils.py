"""Small helpers of the models."""

from __future__ import annotations

from collections import OrderedDict

from ..._tensor import Tensor
from ...nn import Module, ModuleDict


class IntermediateLayerGetter(ModuleDict):
    """The children of a model up to the last that is wanted; a call gives the wanted results under their new names.

    >>> import flambeau as torch
    >>> model = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(2, 2))
    >>> dict(IntermediateLayerGetter(model, {"0": "positive"})(torch.tensor([-1.0, 2.0])))
    {'positive': tensor([0., 2.])}
    """

    def __init__(self, model: Module, return_layers: dict[str, str]) -> None:
        wanted = {str(name): str(new) for name, new in return_layers.items()}
        children = dict(model.named_children())
        if not wanted.keys() <= children.keys():
            raise ValueError("return_layers are not present in model")
        last = max([list(children).index(name) for name in wanted], default=len(children) - 1)
        super().__init__(dict(list(children.items())[: last + 1]))
        self.return_layers = return_layers.copy()

    def forward(self, x: Tensor) -> OrderedDict[str, Tensor]:
        """The wanted results, in the model's order."""
        found: OrderedDict[str, Tensor] = OrderedDict()
        for name, child in self.items():
            x = child(x)
            if name in self.return_layers:
                found[self.return_layers[name]] = x
        return found


def _make_divisible(v: float, divisor: int, min_value: int | None = None) -> int:
    """The multiple of `divisor` nearest to v, but never more than a tenth below it.

    >>> _make_divisible(37, 8)
    40
    """
    least = divisor if min_value is None else min_value
    rounded = max(least, int(v + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * v else rounded
