"""Linear algebra."""

from .._ops.linear.checks import LinAlgError as LinAlgError
from .._tensor.methods import install

install(globals(), "linalg")
