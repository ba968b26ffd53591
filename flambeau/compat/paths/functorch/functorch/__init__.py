"""Stands for `functorch` in child processes of a program that runs on flambeau: gives way to flambeau itself."""

import importlib
import sys

import flambeau

del sys.modules["functorch"]
flambeau.install_as_torch()
sys.modules["functorch"] = importlib.import_module("functorch")
