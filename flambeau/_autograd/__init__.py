"""History: nodes, the engine that walks them, modes and hooks."""
