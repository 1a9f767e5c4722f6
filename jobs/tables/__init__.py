"""The forecast job: a table in, a table out."""
