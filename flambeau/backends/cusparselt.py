"""cuSPARSELt, which is not used."""


def is_available() -> bool:
    """False."""
    return False


def version() -> int | None:
    """None."""
    return None


def get_max_alg_id() -> int | None:
    """None."""
    return None
