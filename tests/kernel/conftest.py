"""What the tests of kernels and plans share."""

import pytest

from flambeau._kernel.native import site


@pytest.fixture(autouse=True)
def forgotten():
    """Tables as in a new process: other tests may have filled them, and full ones want a call to come often."""
    site.forget_all()
