"""Algorithms over several processes. Only the parts that programs import are here."""
