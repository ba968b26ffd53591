"""Reading and writing by index, mask and position."""
