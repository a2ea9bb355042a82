"""Certificates and credentials for tests of secured brokers."""
