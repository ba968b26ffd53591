"""OpenMP, which is not used: threads come from our own pool (`set_num_threads`)."""


def is_available() -> bool:
    """False."""
    return False
