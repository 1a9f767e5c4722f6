"""Chunks computed by actors on a Ray cluster."""
