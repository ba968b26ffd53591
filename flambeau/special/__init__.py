"""Special functions, under SciPy's names."""

from .._methods import install

install(globals(), "special")
