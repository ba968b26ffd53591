"""Types that annotations of compiled functions use."""

from __future__ import annotations

from typing import Annotated, Any, Dict, List, Optional, Tuple, Union  # noqa: UP035  (programs import them from here)

from .._tensor import Tensor

__all__ = [
    "Any", "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "Dict", "List", "Optional", "Tensor",
    "Tuple", "Union",
]  # fmt: skip


class _Broadcasting:
    """`BroadcastingList2[int]`: an integer or a list of two."""

    def __init__(self, count: int):
        self.count = count

    def __getitem__(self, kind: Any) -> Any:
        return Annotated[Union[kind, List[kind]], self.count]  # noqa: UP006


BroadcastingList1, BroadcastingList2, BroadcastingList3, BroadcastingList4, BroadcastingList5, BroadcastingList6 = (
    _Broadcasting(n) for n in range(1, 7)
)
