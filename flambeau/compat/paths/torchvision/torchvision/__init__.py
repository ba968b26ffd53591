"""Stands for `torchvision` in child processes of a program that runs on flambeau: gives way to flambeau itself."""

import importlib
import sys

import flambeau

del sys.modules["torchvision"]
flambeau.install_as_torch()
sys.modules["torchvision"] = importlib.import_module("torchvision")
