"""The switch of the short way through attention and transformer layers in evaluation."""

_is_fastpath_enabled: bool = True


def get_fastpath_enabled() -> bool:
    """Whether it may be taken."""
    return _is_fastpath_enabled


def set_fastpath_enabled(value: bool) -> None:
    """Allows it or not."""
    global _is_fastpath_enabled
    _is_fastpath_enabled = value
