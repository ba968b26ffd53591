"""Sparsifiers: which elements of weights are masked."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from ..._autograd.modes import no_grad
from ..._ops.registry import ops
from ..._tensor import Tensor
from ...nn.modules.linear import Linear
from ...nn.modules.module import Module
from ...nn.utils import parametrize
from .parametrization import FakeSparsity
from .utils import get_arg_info_from_tensor_fqn

__all__ = ["BaseSparsifier", "NearlyDiagonalSparsifier", "WeightNormSparsifier"]

_FACTS = ("module", "module_fqn", "tensor_name", "tensor_fqn")


class BaseSparsifier:
    """Puts masks on the weights of a model; a subclass says in `update_mask` what they hide.

    `prepare` puts them there, `step` chooses them, `squash_mask` writes the zeros into the weights and takes the masks
    away.
    """

    def __init__(self, defaults: dict[str, Any] | None = None) -> None:
        self.defaults: dict[str, Any] = defaults or {}
        self.state: dict[str, dict[str, Any]] = defaultdict(dict)
        self.groups: list[dict[str, Any]] = []
        self.config: list[dict[str, Any]] = []
        self.model: Module | None = None
        self.enable_mask_update = True

    def make_config_from_model(self, model: Module, SUPPORTED_MODULES: Any = (Linear,)) -> None:
        """One entry for the weight of every linear layer."""
        self.config = [
            {"tensor_fqn": f"{name}.weight"}
            for name, part in model.named_modules()
            if name and type(part) in tuple(SUPPORTED_MODULES)
        ]

    def prepare(self, model: Module, config: list[dict[str, Any]] | None) -> None:
        """Puts a mask on every tensor that `config` names by `tensor_fqn`; None: the weights of all linear layers."""
        self.model, self.config = model, config or []
        if config is None:
            self.make_config_from_model(model)
        for entry in self.config:
            if not isinstance(entry, dict) or "tensor_fqn" not in entry:
                raise AssertionError("config elements should be dicts with the key tensor_fqn")
            facts = get_arg_info_from_tensor_fqn(model, entry["tensor_fqn"])
            for key in _FACTS:
                if key in entry and entry[key] is not facts[key] and entry[key] != facts[key]:
                    raise AssertionError(
                        f"Given both `{key}` and `tensor_fqn` in the config, it is expected them to agree!"
                    )
            self.groups.append({**copy.deepcopy(self.defaults), **entry, **facts})
        for group in self.groups:
            module, name = group["module"], group["tensor_name"]
            mask = group.get("mask", ops.ones_like(getattr(module, name)))
            self.state[group["tensor_fqn"]]["mask"] = mask
            parametrize.register_parametrization(module, name, group.get("parametrization", FakeSparsity)(mask))

    def step(self, use_path: bool = True) -> None:
        """Chooses the masks anew."""
        if not self.enable_mask_update:
            return
        with no_grad():
            for group in self.groups:
                self.update_mask(**group)

    def update_mask(self, module: Module, tensor_name: str, **kwargs: Any) -> None:
        """Writes the mask of one tensor; a subclass says how."""
        raise NotImplementedError(f"{type(self).__name__} does not say how masks are chosen: write update_mask")

    def get_mask(self, module: Module, tensor_name: str) -> Tensor:
        """The mask of a tensor."""
        return getattr(module.parametrizations, tensor_name)[0].mask

    def squash_mask(
        self,
        params_to_keep: tuple[str, ...] | None = None,
        params_to_keep_per_layer: dict[str, tuple[str, ...]] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Writes the zeros into the weights and takes the masks away; what to keep is written on the modules."""
        for group in self.groups:
            module, name = group["module"], group["tensor_name"]
            parametrize.remove_parametrizations(module, name, leave_parametrized=True)
            kept = {k: group[k] for k in params_to_keep or ()}
            kept |= {k: group[k] for k in (params_to_keep_per_layer or {}).get(group["module_fqn"], ())}
            if kept:
                module.sparse_params = kept

    def state_dict(self) -> dict[str, Any]:
        """Masks and settings, without the modules."""
        groups = [
            {k: v for k, v in group.items() if k != "module"} if isinstance(group, dict) else group
            for group in self.groups
        ]
        return {"state": self.state, "groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        """Masks and settings as `state_dict` gave them, for the model that was prepared."""
        if self.model is None:
            raise RuntimeError("load_state_dict: prepare the model first")
        groups = copy.deepcopy(state_dict["groups"])
        for name, held in state_dict["state"].items():
            facts = get_arg_info_from_tensor_fqn(self.model, name)
            if facts["module"] is None:
                if strict:
                    raise RuntimeError(f"Error loading {name} into the model")
                continue
            mask = held["mask"]
            if parametrize.is_parametrized(facts["module"], facts["tensor_name"]):
                self.get_mask(facts["module"], facts["tensor_name"]).copy_(mask)
            else:
                parametrize.register_parametrization(facts["module"], facts["tensor_name"], FakeSparsity(mask))
        for group in groups:
            group.update(get_arg_info_from_tensor_fqn(self.model, group["tensor_fqn"]))
        self.state, self.groups = defaultdict(dict, state_dict["state"]), groups

    def __repr__(self) -> str:
        text = type(self).__name__ + " ("
        for number, group in enumerate(self.groups):
            text += f"\n\tGroup {number}\n\t    module: {group['module']}\n"
            text += "".join(f"\t    {key}: {group[key]}\n" for key in sorted(group) if key != "module")
        return text + ")"


class WeightNormSparsifier(BaseSparsifier):
    """Hides the blocks of a weight with the smallest norms.

    `sparsity_level` of the blocks are touched, and in each `zeros_per_block` elements hidden (all of them if not said).

    >>> import flambeau as torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 2))
    >>> sparsifier = torch.ao.pruning.WeightNormSparsifier(0.5, (1, 4))
    >>> sparsifier.prepare(model, None)
    >>> sparsifier.step()
    >>> int((model[0].weight == 0).sum())
    4
    """

    def __init__(
        self,
        sparsity_level: float = 0.5,
        sparse_block_shape: tuple[int, int] = (1, 4),
        zeros_per_block: int | None = None,
        norm: Callable[[Tensor], Tensor] | int | None = None,
    ) -> None:
        if zeros_per_block is None:
            zeros_per_block = sparse_block_shape[0] * sparse_block_shape[1]
        super().__init__(
            {
                "sparsity_level": sparsity_level,
                "sparse_block_shape": sparse_block_shape,
                "zeros_per_block": zeros_per_block,
            }
        )
        if norm is None:
            norm = 2
        if not callable(norm) and norm not in (1, 2):
            raise NotImplementedError(f"L-{norm} is not yet implemented.")
        self.norm_fn = norm if callable(norm) else (lambda t: ops.abs(t)) if norm == 1 else (lambda t: t * t)

    def update_mask(  # type: ignore[override]
        self,
        module: Module,
        tensor_name: str,
        sparsity_level: float,
        sparse_block_shape: tuple[int, int],
        zeros_per_block: int,
        **kwargs: Any,
    ) -> None:
        """Writes the mask of one tensor."""
        rows, columns = sparse_block_shape
        if zeros_per_block > rows * columns:
            raise ValueError(
                "Number of zeros per block cannot be more than the total number of elements in that block."
            )
        if zeros_per_block < 0:
            raise ValueError("Number of zeros per block should be positive.")
        mask = self.get_mask(module, tensor_name)
        if sparsity_level <= 0 or zeros_per_block == 0:
            mask.fill_(1)
            return
        if sparsity_level >= 1.0 and zeros_per_block == rows * columns:
            mask.fill_(0)
            return
        values = self.norm_fn(getattr(module, tensor_name).detach())
        values = values.reshape(-1, values.shape[-1])
        high, wide = -values.shape[0] % rows, -values.shape[1] % columns  # what is missing to whole blocks
        padded = ops.pad(values, (0, wide, 0, high))
        tall, broad = padded.shape[0] // rows, padded.shape[1] // columns
        blocks = padded.reshape(tall, rows, broad, columns).permute(0, 2, 1, 3).reshape(tall * broad, rows * columns)
        touched = min(max(round(sparsity_level * len(blocks)), 0), len(blocks))
        chosen = ops.topk(blocks.mean(-1), touched, largest=False).indices
        kept = ops.ones_like(blocks)
        hidden = ops.topk(blocks[chosen], zeros_per_block, dim=-1, largest=False).indices
        kept[chosen.unsqueeze(-1), hidden] = 0
        whole = kept.reshape(tall, broad, rows, columns).permute(0, 2, 1, 3).reshape(padded.shape)
        mask.copy_(whole[: values.shape[0], : values.shape[1]].reshape(mask.shape))


class NearlyDiagonalSparsifier(BaseSparsifier):
    """Keeps a band of that width around the diagonal; 1 is the diagonal alone."""

    def __init__(self, nearliness: int = 1) -> None:
        super().__init__({"nearliness": nearliness})

    def update_mask(self, module: Module, tensor_name: str, nearliness: int, **kwargs: Any) -> None:  # type: ignore[override]
        """Writes the mask of one tensor."""
        mask = self.get_mask(module, tensor_name)
        height, width = mask.shape
        if nearliness % 2 == 0:
            raise ValueError("nearliness can only be an odd number")
        reach = nearliness // 2
        if height + width < nearliness:
            raise ValueError(f"nearliness {nearliness} is wider than a mask of shape {tuple(mask.shape)}")
        apart = ops.abs(ops.arange(height).unsqueeze(1) - ops.arange(width).unsqueeze(0))
        mask.copy_((apart <= reach).to(mask.dtype))
