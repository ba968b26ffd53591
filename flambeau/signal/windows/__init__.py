"""Window functions, under SciPy's names."""

from ..._tensor.methods import install

install(globals(), "signal.windows")
