"""Greedy and beam search over a decoder's steps."""
