"""Stands for `torchmetrics` in child processes of a program that runs on flambeau: gives way to flambeau itself."""

import importlib
import sys

import flambeau

del sys.modules["torchmetrics"]
flambeau.install_as_torch()
sys.modules["torchmetrics"] = importlib.import_module("torchmetrics")
