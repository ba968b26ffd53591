"""A plugin of pytest: every test begins with the same random numbers, whatever ran before it."""

import random

import numpy
import pytest
import torch


@pytest.fixture(autouse=True)
def _seeded():
    random.seed(42)
    numpy.random.seed(42)
    torch.manual_seed(42)
