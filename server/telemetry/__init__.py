"""What the server tells of itself: counts, logs, spans."""
