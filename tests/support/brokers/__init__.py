"""Brokers, clusters and their stores for tests."""
