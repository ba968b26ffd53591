"""The parts of `utils.benchmark`."""
