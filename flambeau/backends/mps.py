"""Apple's GPUs, which are not supported."""


def is_built() -> bool:
    """False."""
    return False


def is_available() -> bool:
    """False."""
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """False: there is no support to ask for."""
    return False


def is_macos13_or_newer(minor: int = 0) -> bool:
    """False: there is no support to ask for."""
    return False
