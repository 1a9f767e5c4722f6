"""The Open Inference Protocol, and the stubs generated from it."""
