"""The HTTP port: metrics, probes, and a page for people."""
