"""Frequencies, calendars, zones: what stamps step by."""
