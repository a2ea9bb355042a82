"""Logins: what a broker serves on a SASL connection before its client is authenticated."""
