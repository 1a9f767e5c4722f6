"""What a job has done so far, on disk."""
