"""Where PyTorch has the functions of `torch.masked`, and its examples find them."""

from .._tensor.methods import install

install(globals(), "masked")
