"""Settings of the fuzz tests: the same examples on every run. `--hypothesis-profile=thorough` looks much further."""

import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))  # for `strategies`

_COMMON = dict(derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
settings.register_profile("quick", max_examples=40, **_COMMON)
settings.register_profile("thorough", max_examples=1000, **{**_COMMON, "derandomize": False})
settings.load_profile("quick")
