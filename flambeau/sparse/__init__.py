"""Operations on sparse tensors."""

from .._methods import install

install(globals(), "sparse")
