"""For tests: comparing results (`assert_close`), making inputs (`make_tensor`), looking into text (`FileCheck`)."""

from .._core.submodules import submodule
from ._comparison import assert_allclose, assert_close
from ._creation import make_tensor
from ._file_check import FileCheck

__all__ = ["FileCheck", "assert_allclose", "assert_close", "make_tensor"]


def __getattr__(name: str) -> object:
    """Loads parts at their first use."""
    return submodule(__name__, name)
