"""Measures, and forecasts to compare with."""
