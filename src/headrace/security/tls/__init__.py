"""Certificates, key stores, cipher suites and the names in certificates."""
