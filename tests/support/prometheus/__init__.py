"""Prometheus: its tool, and the names in its expressions."""
