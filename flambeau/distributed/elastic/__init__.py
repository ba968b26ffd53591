"""Launching and watching processes. Only the parts that programs import are here."""
