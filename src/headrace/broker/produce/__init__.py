"""Produce: checks, appends, record validation, delayed requests, responses."""
