"""Linear algebra."""

from .._methods import install
from .._ops.linalg_checks import LinAlgError as LinAlgError

install(globals(), "linalg")
