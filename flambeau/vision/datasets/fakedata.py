"""Random images, to try programs without data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._core.dtypes import int64
from ..._ops.registry import ops
from ...random import get_rng_state, manual_seed, set_rng_state
from ..transforms.functional import to_pil_image
from .vision import VisionDataset


class FakeData(VisionDataset):
    """Images and labels of chance; the same number always gives the same image."""

    def __init__(
        self,
        size: int = 1000,
        image_size: tuple[int, int, int] = (3, 224, 224),
        num_classes: int = 10,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        random_offset: int = 0,
    ) -> None:
        super().__init__(None, transform=transform, target_transform=target_transform)
        self.size = size
        self.num_classes = num_classes
        self.image_size = image_size
        self.random_offset = random_offset

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if index >= len(self):
            raise IndexError(f"{type(self).__name__} index out of range")
        before = get_rng_state()
        manual_seed(index + self.random_offset)
        image = ops.randn(*self.image_size)
        target = ops.randint(0, self.num_classes, size=(1,), dtype=int64)[0]
        set_rng_state(before)
        image, target = self._transformed(to_pil_image(image), target)
        return image, target.item() if hasattr(target, "item") else target

    def __len__(self) -> int:
        return self.size
