"""tecu."""
