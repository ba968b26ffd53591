"""The names that `functorch.experimental` has."""

from ...._functorch.apis import chunk_vmap
from ....func import functionalize, replace_all_batch_norm_modules_

__all__ = ["chunk_vmap", "functionalize", "replace_all_batch_norm_modules_"]
