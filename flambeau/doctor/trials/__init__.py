"""Trials: the program runs under other conditions than its own, and the doctor says what came of it."""
