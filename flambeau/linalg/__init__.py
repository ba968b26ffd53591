"""Linear algebra."""

from .._methods import install

install(globals(), "linalg")
