"""Scores of images (N, C, H, W) as functions: signal to noise, structural similarity, total variation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..._ops.registry import ops
from ..._tensor import Tensor
from ...nn import functional as F
from ..utilities import rank_zero_warn
from ..utilities.checks import check_choice, check_same_shape

__all__ = [
    "image_gradients", "multiscale_structural_similarity_index_measure", "peak_signal_noise_ratio",
    "structural_similarity_index_measure", "total_variation",
]  # fmt: skip

_REDUCTIONS = ("elementwise_mean", "sum", "none", None)
Range = float | tuple[float, float] | None


def reduced(values: Tensor, reduction: str | None) -> Tensor:
    """The values of single images averaged, summed or as they are."""
    if reduction in ("elementwise_mean", "mean"):
        return values.mean()
    return values.sum() if reduction == "sum" else values


def in_range(preds: Tensor, target: Tensor, data_range: Range) -> tuple[Tensor, Tensor, Any]:
    """Images cut to the range if it is given by its ends, and its width; without one, that of the images."""
    if data_range is None:
        return preds, target, ops.maximum(preds.max() - preds.min(), target.max() - target.min())
    if isinstance(data_range, tuple):
        low, high = data_range
        return preds.clamp(low, high), target.clamp(low, high), high - low
    return preds, target, data_range


# Signal to noise


def squared_error_sums(preds: Tensor, target: Tensor, dim: int | tuple[int, ...] | None) -> tuple[Tensor, Tensor]:
    """Sum of squared errors and the number of values, of all or over the given dimensions."""
    check_same_shape(preds, target)
    error = (preds - target) ** 2
    if dim is None:
        return error.sum(), ops.tensor(error.numel(), device=error.device)
    total = error.sum(dim)
    return total, ops.full_like(total, error.numel() // max(total.numel(), 1)).long()


def signal_noise_of(total: Tensor, count: Tensor, data_range: Any, base: float, reduction: str | None) -> Tensor:
    width = data_range.float() if isinstance(data_range, Tensor) else ops.tensor(float(data_range), device=total.device)
    values = (2 * width.log() - (total / count).log()) * (10 / math.log(base))
    return reduced(values, reduction)


def peak_signal_noise_ratio(
    preds: Tensor,
    target: Tensor,
    data_range: float | tuple[float, float] = 3.0,
    base: float = 10.0,
    reduction: str | None = "elementwise_mean",
    dim: int | tuple[int, ...] | None = None,
) -> Tensor:
    """Peak signal-to-noise ratio in decibels, of all values, or over `dim` and then reduced.

    >>> import flambeau as torch
    >>> peak_signal_noise_ratio(torch.ones(1, 1, 4, 4), torch.full((1, 1, 4, 4), 0.9), data_range=1.0)
    tensor(20.0000)
    """
    if dim is None and reduction != "elementwise_mean":
        rank_zero_warn(f"The `reduction={reduction}` will not have any effect when `dim` is None.", UserWarning)
    preds, target, width = in_range(preds, target, data_range)
    return signal_noise_of(*squared_error_sums(preds, target, dim), width, base, reduction)


# Structural similarity


def check_images(preds: Tensor, target: Tensor) -> None:
    check_same_shape(preds, target)
    if preds.dtype is not target.dtype:
        raise TypeError(
            f"Expected `preds` and `target` to have the same data type. Got preds: {preds.dtype} and target: {target.dtype}."
        )
    if preds.dim() not in (4, 5):
        raise ValueError(
            f"Expected `preds` and `target` to have BxCxHxW or BxCxDxHxW shape. Got preds: {tuple(preds.shape)}."
        )


def _window(size: int, sigma: float | None, like: Tensor) -> Tensor:
    """Weights of one dimension: a Gaussian's, or equal ones."""
    if sigma is None:
        return ops.full((size,), 1.0 / size, dtype=like.dtype, device=like.device)
    place = ops.arange(size, dtype=like.dtype, device=like.device) - (size - 1) / 2
    weights = (-((place / sigma) ** 2) / 2).exp()
    return weights / weights.sum()


def _each(value: Any, count: int, name: str) -> list[Any]:
    found = list(value) if isinstance(value, Sequence) else [value] * count
    if len(found) != count:
        raise ValueError(
            f"`{name}` has dimension {len(found)}, but expected to be two less that target dimensionality, {count}"
        )
    return found


def _filtered(x: Tensor, windows: Sequence[Tensor]) -> Tensor:
    """Images filtered along each spatial dimension in turn, where the windows fit inside."""
    for i, window in enumerate(windows):
        moved = x.movedim(2 + i, -1)
        rows = moved.reshape(-1, 1, moved.shape[-1])
        rows = F.conv1d(rows, window.reshape(1, 1, -1))
        x = rows.reshape(*moved.shape[:-1], -1).movedim(-1, 2 + i)
    return x


def similarity_maps(
    preds: Tensor,
    target: Tensor,
    gaussian_kernel: bool,
    sigma: float | Sequence[float],
    kernel_size: int | Sequence[int],
    data_range: Range,
    k1: float,
    k2: float,
) -> tuple[Tensor, Tensor, list[int]]:
    """Similarity and contrast at each place, of images mirrored at their edges, and how wide the margins are."""
    check_images(preds, target)
    spatial = preds.dim() - 2
    sigmas, sizes = _each(sigma, spatial, "sigma"), _each(kernel_size, spatial, "kernel_size")
    if any(size % 2 == 0 or size <= 0 for size in sizes):
        raise ValueError(f"Expected `kernel_size` to have odd positive number. Got {kernel_size}.")
    if any(s <= 0 for s in sigmas):
        raise ValueError(f"Expected `sigma` to have positive number. Got {sigma}.")
    if gaussian_kernel:
        sizes = [int(3.5 * s + 0.5) * 2 + 1 for s in sigmas]
    preds, target, width = in_range(preds, target, data_range)
    c1, c2 = (k1 * width) ** 2, (k2 * width) ** 2
    margins = [(size - 1) // 2 for size in sizes]
    edges = [margin for margin in reversed(margins) for _ in range(2)]
    preds, target = F.pad(preds, edges, mode="reflect"), F.pad(target, edges, mode="reflect")
    windows = [_window(size, s if gaussian_kernel else None, preds) for size, s in zip(sizes, sigmas)]
    together = ops.cat([preds, target, preds * preds, target * target, preds * target])
    mean_p, mean_t, pp, tt, pt = _filtered(together, windows).chunk(5)
    var_p, var_t = (pp - mean_p**2).clamp(min=0), (tt - mean_t**2).clamp(min=0)
    contrast = (2 * (pt - mean_p * mean_t) + c2) / (var_p + var_t + c2)
    similarity = (2 * mean_p * mean_t + c1) / (mean_p**2 + mean_t**2 + c1) * contrast
    return similarity, contrast, margins


def similarities(preds: Tensor, target: Tensor, *options: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Similarity and contrast of each image, and the map of similarity; contrast without the margins."""
    similarity, contrast, margins = similarity_maps(preds, target, *options)
    inside = contrast[(..., *(slice(m, size - m) for m, size in zip(margins, contrast.shape[2:])))]
    return similarity.flatten(1).mean(1), inside.flatten(1).mean(1), similarity


def structural_similarity_index_measure(
    preds: Tensor,
    target: Tensor,
    gaussian_kernel: bool = True,
    sigma: float | Sequence[float] = 1.5,
    kernel_size: int | Sequence[int] = 11,
    reduction: str | None = "elementwise_mean",
    data_range: Range = None,
    k1: float = 0.01,
    k2: float = 0.03,
    return_full_image: bool = False,
    return_contrast_sensitivity: bool = False,
) -> Any:
    """Structural similarity of images (N, C, H, W) or volumes (N, C, D, H, W); with the map or the contrasts if asked.

    >>> import flambeau as torch
    >>> image = torch.linspace(0, 1, 256).reshape(1, 1, 16, 16)
    >>> structural_similarity_index_measure(image, image, data_range=1.0)
    tensor(1.)
    """
    check_choice("reduction", reduction, _REDUCTIONS)
    options = (gaussian_kernel, sigma, kernel_size, data_range, k1, k2)
    values, contrast, full = similarities(preds, target, *options)
    found = reduced(values, reduction)
    if return_contrast_sensitivity:
        return found, contrast
    return (found, full) if return_full_image else found


BETAS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)


def multiscale_values(
    preds: Tensor,
    target: Tensor,
    gaussian_kernel: bool,
    sigma: float | Sequence[float],
    kernel_size: int | Sequence[int],
    data_range: Range,
    k1: float,
    k2: float,
    betas: Sequence[float],
    normalize: str | None,
) -> Tensor:
    """Similarity of each image over several scales: contrasts of the finer ones, similarity of the coarsest."""
    check_images(preds, target)
    spatial = preds.dim() - 2
    least = 2 ** max(0, len(betas) - 1)
    sizes = _each(kernel_size, spatial, "kernel_size")
    for extent, size in zip(preds.shape[2:], sizes):
        if extent < least or extent // max(1, (len(betas) - 1)) ** 2 <= size - 1:
            raise ValueError(
                f"For a given number of `betas` parameters {len(betas)} and kernel size {size}, the image height and width "
                f"must be larger; got {tuple(preds.shape)}."
            )
    pool = F.avg_pool2d if spatial == 2 else F.avg_pool3d
    scales = []
    for i in range(len(betas)):
        values, contrast, _ = similarities(preds, target, gaussian_kernel, sigma, kernel_size, data_range, k1, k2)
        if normalize == "relu":
            values, contrast = values.relu(), contrast.relu()
        scales.append(values if i == len(betas) - 1 else contrast)
        preds, target = pool(preds, 2), pool(target, 2)
    stacked = ops.stack(scales)
    if normalize == "simple":
        stacked = (stacked + 1) / 2
    return (stacked ** stacked.new_tensor(list(betas)).unsqueeze(1)).prod(0)


def multiscale_structural_similarity_index_measure(
    preds: Tensor,
    target: Tensor,
    gaussian_kernel: bool = True,
    sigma: float | Sequence[float] = 1.5,
    kernel_size: int | Sequence[int] = 11,
    reduction: str | None = "elementwise_mean",
    data_range: Range = None,
    k1: float = 0.01,
    k2: float = 0.03,
    betas: tuple[float, ...] = BETAS,
    normalize: str | None = "relu",
) -> Tensor:
    """Structural similarity over several scales, each half as large as the one before."""
    check_multiscale(betas, normalize)
    values = multiscale_values(preds, target, gaussian_kernel, sigma, kernel_size, data_range, k1, k2, betas, normalize)
    return reduced(values, reduction)


def check_multiscale(betas: Any, normalize: Any) -> None:
    if not isinstance(betas, tuple) or not all(isinstance(beta, float) for beta in betas):
        raise ValueError("Argument `betas` is expected to be a tuple of floats")
    if normalize not in ("relu", "simple", None):
        raise ValueError("Argument `normalize` to be expected either `None` or one of 'relu' or 'simple'")


# Differences of neighbours


def variations(img: Tensor) -> Tensor:
    """Sum of the absolute differences of neighbours, of each image."""
    if img.dim() != 4:
        raise RuntimeError(f"Expected input `img` to be an 4D tensor, but got {tuple(img.shape)}")
    down, across = (img[..., 1:, :] - img[..., :-1, :]).abs(), (img[..., 1:] - img[..., :-1]).abs()
    return down.sum((1, 2, 3)) + across.sum((1, 2, 3))


def total_variation(img: Tensor, reduction: str | None = "sum") -> Tensor:
    """Sum of the absolute differences of neighbours."""
    check_choice("reduction", reduction, ("mean", "sum", "none", None))
    return reduced(variations(img), reduction)


def image_gradients(img: Tensor) -> tuple[Tensor, Tensor]:
    """Differences to the next row and to the next column, zero at the end."""
    if img.dim() != 4:
        raise RuntimeError(f"The `img` expects a 4D tensor but got {img.dim()}D tensor")
    return F.pad(img[..., 1:, :] - img[..., :-1, :], (0, 0, 0, 1)), F.pad(img[..., 1:] - img[..., :-1], (0, 1))
