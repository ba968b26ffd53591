"""The command `flambeau`."""
