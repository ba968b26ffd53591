"""Functions of the compiled core that PyTorch's own modules call past the overrides; here they are the top namespace's."""

from typing import Any


def unique_dim(
    input: Any, dim: int, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> Any:
    """The distinct slices along `dim`, with inverse and counts, which are empty unless they were asked for."""
    import flambeau

    nothing = flambeau.empty(0, dtype=flambeau.int64)
    values, inverse, counts = flambeau.unique(input, sorted, True, True, dim)
    return values, inverse if return_inverse else nothing, counts if return_counts else nothing


def __getattr__(name: str) -> Any:
    import flambeau

    return getattr(flambeau, name)
