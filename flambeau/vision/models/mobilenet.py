"""Both generations of MobileNet under one name."""

from .mobilenetv2 import *  # noqa: F403
from .mobilenetv2 import __all__ as _v2
from .mobilenetv3 import *  # noqa: F403
from .mobilenetv3 import __all__ as _v3

__all__ = _v2 + _v3
