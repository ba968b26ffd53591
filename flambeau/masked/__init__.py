"""Reductions and normalisations that see only the elements a mask lets through."""

from .._methods import install

install(globals(), "masked")
