"""Switches of `save` and `load`.

`save`: whether checksums are computed, and the alignment of storages in files. `load`: whether files are mapped, how, and the
order of bytes assumed for files that do not say it. The two others change speed in PyTorch only.
"""

import sys as _sys

from ..._serialization.options import settings as _settings
from .._config_module import install_config_module as _install

save = _settings.save
load = _settings.load

_install(_sys.modules[__name__])
