"""Which models are there: found, loaded, served, replaced."""
