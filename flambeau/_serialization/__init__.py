"""Checkpoints: the containers that they are kept in, their pickles, and what names in them mean."""
