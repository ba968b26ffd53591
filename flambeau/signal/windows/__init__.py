"""Window functions, under SciPy's names."""

from ..._methods import install

install(globals(), "signal.windows")
