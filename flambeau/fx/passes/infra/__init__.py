"""What passes over graphs have in common."""
