"""Tables of any size from files, in any state, to typed rows."""
