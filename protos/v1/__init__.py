"""Generated stubs of foretell.v1; never edited by hand."""
