"""The bundle's contract: write, read, verify."""
