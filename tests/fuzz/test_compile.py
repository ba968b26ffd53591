"""Random programs give the same compiled as eagerly."""

import pytest
from compiled_programs import run


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 200, 25))
def test_programs(first):
    said = [run(seed) for seed in range(first, first + 25)]
    assert [text for text in said if text not in ("", "eager")] == []
    assert said.count("eager") <= 2
