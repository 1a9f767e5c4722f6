"""A page about an evaluation."""
