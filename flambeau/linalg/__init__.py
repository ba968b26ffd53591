"""Linear algebra."""

from .._ops.linalg_checks import LinAlgError as LinAlgError
from .._tensor.methods import install

install(globals(), "linalg")
