"""A model's queue for many callers: bounded, fair, in batches."""
