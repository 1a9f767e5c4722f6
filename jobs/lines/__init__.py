"""The jobs over text: a line in, a line out."""
