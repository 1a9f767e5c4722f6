"""Tables to arrays and back: frames, calendars, options, errors, and the bundle's contract."""
