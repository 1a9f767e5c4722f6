"""Batch prediction and evaluation over files."""
