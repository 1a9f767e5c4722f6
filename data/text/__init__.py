"""Text as models see it: its normal form, its pieces, and how pieces are learned."""
