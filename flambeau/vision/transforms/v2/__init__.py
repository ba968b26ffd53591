"""Transforms of the second generation: of images together with their masks and boxes, in any structure."""

from ..autoaugment import AutoAugmentPolicy
from ..functional import InterpolationMode
from . import functional as functional
from ._augment import AugMix, AutoAugment, CutMix, MixUp, RandAugment, RandomErasing, TrivialAugmentWide
from ._color import (
    ColorJitter,
    GaussianBlur,
    GaussianNoise,
    Grayscale,
    RandomAdjustSharpness,
    RandomAutocontrast,
    RandomChannelPermutation,
    RandomEqualize,
    RandomGrayscale,
    RandomInvert,
    RandomPhotometricDistort,
    RandomPosterize,
    RandomSolarize,
)
from ._container import Compose, Identity, Lambda, RandomApply, RandomChoice, RandomOrder
from ._forms import (
    RGB,
    ClampBoundingBoxes,
    ConvertBoundingBoxFormat,
    ConvertImageDtype,
    LinearTransformation,
    Normalize,
    PILToTensor,
    SanitizeBoundingBoxes,
    ToDtype,
    ToImage,
    ToPILImage,
    ToPureTensor,
    ToTensor,
)
from ._geometry import (
    CenterCrop,
    ElasticTransform,
    FiveCrop,
    Pad,
    RandomAffine,
    RandomCrop,
    RandomHorizontalFlip,
    RandomPerspective,
    RandomResize,
    RandomResizedCrop,
    RandomRotation,
    RandomShortestSize,
    RandomVerticalFlip,
    RandomZoomOut,
    Resize,
    ScaleJitter,
    TenCrop,
)
from ._transform import Transform

__all__ = [
    "RGB", "AugMix", "AutoAugment", "AutoAugmentPolicy", "CenterCrop", "ClampBoundingBoxes", "ColorJitter", "Compose",
    "ConvertBoundingBoxFormat", "ConvertImageDtype", "CutMix", "ElasticTransform", "FiveCrop", "GaussianBlur",
    "GaussianNoise", "Grayscale", "Identity", "InterpolationMode", "Lambda", "LinearTransformation", "MixUp", "Normalize",
    "PILToTensor", "Pad", "RandAugment", "RandomAdjustSharpness", "RandomAffine", "RandomApply", "RandomAutocontrast",
    "RandomChannelPermutation", "RandomChoice", "RandomCrop", "RandomEqualize", "RandomErasing", "RandomGrayscale",
    "RandomHorizontalFlip", "RandomInvert", "RandomOrder", "RandomPerspective", "RandomPhotometricDistort",
    "RandomPosterize", "RandomResize", "RandomResizedCrop", "RandomRotation", "RandomShortestSize", "RandomSolarize",
    "RandomVerticalFlip", "RandomZoomOut", "Resize", "SanitizeBoundingBoxes", "ScaleJitter", "TenCrop", "ToDtype", "ToImage",
    "ToPILImage", "ToPureTensor", "ToTensor", "Transform", "TrivialAugmentWide", "functional",
]  # fmt: skip
