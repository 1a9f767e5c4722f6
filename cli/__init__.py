"""The foretell command; thin."""
