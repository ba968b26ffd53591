"""A plugin for pytest, outside of the package, so that other runs do not import it: with --doctor every test is watched, and one
whose training shows a mistake fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--doctor", action="store_true", default=False, help="watch what tests train; mistakes fail them")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: Any) -> Iterator[None]:
    if not item.config.getoption("--doctor"):
        return (yield)
    from flambeau.doctor import watch  # loads flambeau: only where it is asked for

    with watch() as report:
        result = yield
    if report.findings:
        pytest.fail(f"the doctor found mistakes:\n{report}", pytrace=False)
    return result
