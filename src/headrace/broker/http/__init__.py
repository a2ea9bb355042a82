"""The broker's HTTP port: metrics, probes and version."""
