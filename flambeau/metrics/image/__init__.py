"""Metrics of images: signal to noise, structural similarity, total variation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._ops.registry import ops
from ..._tensor import Tensor
from ..functional.image import (
    _REDUCTIONS,
    BETAS,
    Range,
    check_multiscale,
    in_range,
    multiscale_values,
    reduced,
    signal_noise_of,
    similarities,
    squared_error_sums,
    variations,
)
from ..metric import Metric
from ..utilities import rank_zero_warn
from ..utilities.checks import check_choice
from ..utilities.data import dim_zero_cat

__all__ = [
    "MultiScaleStructuralSimilarityIndexMeasure", "PeakSignalNoiseRatio", "StructuralSimilarityIndexMeasure",
    "TotalVariation",
]  # fmt: skip


class PeakSignalNoiseRatio(Metric):
    """Peak signal-to-noise ratio in decibels, of all values, or over `dim` and then reduced."""

    is_differentiable = True
    higher_is_better = True
    full_state_update = False
    plot_lower_bound = 0.0

    def __init__(
        self,
        data_range: float | tuple[float, float],
        base: float = 10.0,
        reduction: str | None = "elementwise_mean",
        dim: int | tuple[int, ...] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if dim is None and reduction != "elementwise_mean":
            rank_zero_warn(f"The `reduction={reduction}` will not have any effect when `dim` is None.", UserWarning)
        self.base, self.reduction, self.dim = base, reduction, dim
        self.clamping = data_range if isinstance(data_range, tuple) else None
        width = data_range[1] - data_range[0] if isinstance(data_range, tuple) else data_range
        self.register_buffer("data_range", ops.tensor(float(width)), persistent=False)
        fresh: tuple[Any, Any, str] = (ops.tensor(0.0), ops.tensor(0), "sum") if dim is None else ([], [], "cat")
        self.add_state("sum_squared_error", fresh[0], dist_reduce_fx=fresh[2])
        self.add_state("total", fresh[1], dist_reduce_fx=fresh[2])

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds images and what they should be."""
        if self.clamping is not None:
            preds, target, _ = in_range(preds, target, self.clamping)
        total, count = squared_error_sums(preds, target, self.dim)
        if self.dim is None:
            self.sum_squared_error = self.sum_squared_error + total
            self.total = self.total + count
        else:
            self.sum_squared_error.append(total.reshape(-1))
            self.total.append(count.reshape(-1))

    def compute(self) -> Tensor:
        """The ratio so far."""
        total, count = dim_zero_cat(self.sum_squared_error), dim_zero_cat(self.total)
        return signal_noise_of(total, count, self.data_range, self.base, self.reduction)


class _Similarity(Metric):
    """States are the values of single images, or their sum and number."""

    is_differentiable = True
    higher_is_better = True
    full_state_update = False
    plot_lower_bound, plot_upper_bound = 0.0, 1.0

    def _declare(self, reduction: str | None) -> None:
        check_choice("reduction", reduction, _REDUCTIONS)
        self.reduction = reduction
        kept = reduction in ("none", None)
        self.add_state("similarity", [] if kept else ops.tensor(0.0), dist_reduce_fx="cat" if kept else "sum")
        self.add_state("total", ops.tensor(0.0), dist_reduce_fx="sum")

    def _add(self, values: Tensor) -> None:
        if isinstance(self.similarity, list):
            self.similarity.append(values)
        else:
            self.similarity = self.similarity + values.sum()
        self.total = self.total + len(values)

    def compute(self) -> Any:
        """The similarity so far."""
        similarity = dim_zero_cat(self.similarity)
        return similarity / self.total if self.reduction == "elementwise_mean" else similarity


class StructuralSimilarityIndexMeasure(_Similarity):
    """Structural similarity of images (N, C, H, W) or volumes (N, C, D, H, W)."""

    def __init__(
        self,
        gaussian_kernel: bool = True,
        sigma: float | Sequence[float] = 1.5,
        kernel_size: int | Sequence[int] = 11,
        reduction: str | None = "elementwise_mean",
        data_range: Range = None,
        k1: float = 0.01,
        k2: float = 0.03,
        return_full_image: bool = False,
        return_contrast_sensitivity: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if return_full_image and return_contrast_sensitivity:
            raise ValueError("Arguments `return_full_image` and `return_contrast_sensitivity` can not both be `True`.")
        self._declare(reduction)
        self.gaussian_kernel, self.sigma, self.kernel_size = gaussian_kernel, sigma, kernel_size
        self.data_range, self.k1, self.k2 = data_range, k1, k2
        self.return_full_image, self.return_contrast_sensitivity = return_full_image, return_contrast_sensitivity
        if return_full_image or return_contrast_sensitivity:
            self.add_state("image_return", [], dist_reduce_fx="cat")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds images and what they should be."""
        options = (self.gaussian_kernel, self.sigma, self.kernel_size, self.data_range, self.k1, self.k2)
        values, contrast, full = similarities(preds, target, *options)
        self._add(values)
        if self.return_full_image or self.return_contrast_sensitivity:
            self.image_return.append(full if self.return_full_image else contrast)

    def compute(self) -> Any:
        """The similarity so far, with the maps or contrasts if these were asked for."""
        found = super().compute()
        if self.return_full_image or self.return_contrast_sensitivity:
            return found, dim_zero_cat(self.image_return)
        return found


class MultiScaleStructuralSimilarityIndexMeasure(_Similarity):
    """Structural similarity over several scales, each half as large as the one before."""

    def __init__(
        self,
        gaussian_kernel: bool = True,
        kernel_size: int | Sequence[int] = 11,
        sigma: float | Sequence[float] = 1.5,
        reduction: str | None = "elementwise_mean",
        data_range: Range = None,
        k1: float = 0.01,
        k2: float = 0.03,
        betas: tuple[float, ...] = BETAS,
        normalize: str | None = "relu",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_multiscale(betas, normalize)
        self._declare(reduction)
        self._options = (gaussian_kernel, sigma, kernel_size, data_range, k1, k2, betas, normalize)

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds images and what they should be."""
        self._add(multiscale_values(preds, target, *self._options))


class TotalVariation(Metric):
    """Sum of the absolute differences of neighbours."""

    is_differentiable = True
    higher_is_better = False
    full_state_update = False
    plot_lower_bound = 0.0

    def __init__(self, reduction: str | None = "sum", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_choice("reduction", reduction, ("mean", "sum", "none", None))
        self.reduction = reduction
        self.add_state("score_list", [], dist_reduce_fx="cat")

    def update(self, img: Tensor) -> None:
        """Adds images (N, C, H, W)."""
        self.score_list.append(variations(img))

    def compute(self) -> Tensor:
        """The variation so far."""
        return reduced(dim_zero_cat(self.score_list), self.reduction)
