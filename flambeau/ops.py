"""`torch.ops` where imports look for it (`from torch.ops import aten`); the object itself is made with the namespaces."""

import sys

from ._library.namespaces import ops

sys.modules[__name__] = ops
