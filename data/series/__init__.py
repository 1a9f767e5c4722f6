"""Small real series that ship with foretell."""
