"""Stands for `torch` in child processes of a program that runs on flambeau: gives way to flambeau itself."""

import sys

import flambeau

del sys.modules["torch"]
flambeau.install_as_torch()
sys.modules["torch"] = flambeau
