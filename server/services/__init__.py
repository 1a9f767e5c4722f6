"""The services of foretell.v1 and of health: decode, call, encode."""
