"""Stateless functions of neural networks."""

from .._methods import install

install(globals(), "nn.functional")
