"""Views, and copies in another arrangement."""
