"""The older place of functions of `torch.library`."""

from .library import get_ctx, impl_abstract, register_fake

__all__ = ["get_ctx", "impl_abstract", "register_fake"]
