"""What the augmentation policies share: their operations, and the ranges of their magnitudes."""

from __future__ import annotations

import functools
import math
from typing import Any

from ..._ops.registry import ops

# An operation's magnitudes (None for those that have none), and whether their sign is of chance.
Space = dict[str, tuple[list[float] | None, bool]]
FACTORS = ("Brightness", "Color", "Contrast", "Sharpness")
_MOVES = {  # angle, translation, shear
    "ShearX": lambda m: (0.0, [0, 0], [math.degrees(math.atan(m)), 0.0]),
    "ShearY": lambda m: (0.0, [0, 0], [0.0, math.degrees(math.atan(m))]),
    "TranslateX": lambda m: (0.0, [int(m), 0], [0.0, 0.0]),
    "TranslateY": lambda m: (0.0, [0, int(m)], [0.0, 0.0]),
}
_CHANGES = {
    "Brightness": lambda f, img, m: f.adjust_brightness(img, 1.0 + m),
    "Color": lambda f, img, m: f.adjust_saturation(img, 1.0 + m),
    "Contrast": lambda f, img, m: f.adjust_contrast(img, 1.0 + m),
    "Sharpness": lambda f, img, m: f.adjust_sharpness(img, 1.0 + m),
    "Posterize": lambda f, img, m: f.posterize(img, int(m)),
    "Solarize": lambda f, img, m: f.solarize(img, m),
    "AutoContrast": lambda f, img, m: f.autocontrast(img),
    "Equalize": lambda f, img, m: f.equalize(img),
    "Invert": lambda f, img, m: f.invert(img),
    "Identity": lambda f, img, m: img,
}


def apply_op(functions: Any, img: Any, name: str, magnitude: float, interpolation: Any, fill: Any) -> Any:
    """One operation of a policy, by the functions of either generation of transforms."""
    if name in _MOVES:
        angle, translate, shear = _MOVES[name](magnitude)
        center = [0, 0] if name.startswith("Shear") else None
        return functions.affine(img, angle, translate, 1.0, shear, interpolation, fill=fill, center=center)
    if name == "Rotate":
        return functions.rotate(img, magnitude, interpolation=interpolation, fill=fill)
    if name in _CHANGES:
        return _CHANGES[name](functions, img, magnitude)
    raise ValueError(f"The provided operator {name} is not recognized.")


def line(start: float, end: float, bins: int) -> list[float]:
    """Numbers at equal distances."""
    return ops.linspace(start, end, bins).tolist()


def _space(
    bins: int, shear: float, across: float, down: float, rotate: float, factor: float | None, bits: tuple[int, int],
    white: float,
) -> Space:  # fmt: skip
    """The operations that all policies share, in an order that the random stream shows."""
    most, span = bits
    moves = {"ShearX": shear, "ShearY": shear, "TranslateX": across, "TranslateY": down, "Rotate": rotate}
    if factor is not None:
        moves |= dict.fromkeys(FACTORS, factor)
    space: Space = {name: (line(0.0, end, bins), True) for name, end in moves.items()}
    space["Posterize"] = (most - (ops.arange(bins) / ((bins - 1) / span)).round()).tolist(), False
    space["Solarize"] = line(white, 0.0, bins), False
    return space | {"AutoContrast": (None, False), "Equalize": (None, False)}


@functools.lru_cache(maxsize=256)
def standard_space(bins: int, height: int, width: int, white: float) -> Space:
    """The operations of RandAugment; those of AutoAugment are among them, but for one."""
    across, down = 150.0 / 331.0 * width, 150.0 / 331.0 * height
    space = _space(bins, 0.3, across, down, 30.0, 0.9, (8, 4), white)
    return {"Identity": (None, False), **space}


@functools.lru_cache(maxsize=256)
def wide_space(bins: int, white: float) -> Space:
    """The operations of TrivialAugment, stronger than the others."""
    return {"Identity": (None, False), **_space(bins, 0.99, 32.0, 32.0, 135.0, 0.99, (8, 6), white)}


@functools.lru_cache(maxsize=256)
def mixing_space(height: int, width: int, white: float, all_ops: bool) -> Space:
    """The operations of AugMix."""
    space = _space(10, 0.3, width / 3.0, height / 3.0, 30.0, None, (4, 4), white)
    return space | {name: (line(0.0, 0.9, 10), True) for name in FACTORS} if all_ops else space
