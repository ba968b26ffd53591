"""What compiles recorded graphs: names for it, and what looks at them."""
