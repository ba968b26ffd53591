"""`torch.classes` where imports look for it; the object itself is made in `_classes`."""

import sys

from ._classes import classes

sys.modules[__name__] = classes
